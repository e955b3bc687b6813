package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"

	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// maxBody bounds the body of a change, in bytes.
const maxBody = 1 << 20

// stateAnswer is what the state is, as GET /admin/stage and every change answer it.
type stateAnswer struct {
	State  *retire.State `json:"state"`
	Damage string        `json:"damage,omitempty"` // why the file does not say so
}

// Stage answers GET /admin/stage.
func (a *Admin) Stage(w http.ResponseWriter, _ *http.Request) {
	out := stateAnswer{State: a.o.Keeper.State()}
	if err := a.o.Keeper.Damage(); err != nil {
		out.Damage = err.Error()
	}
	answer(w, http.StatusOK, out)
}

// A wanted change. Either Stage, which leaves the rest of the document as it is, or the whole document.
type wanted struct {
	Version *int64        `json:"version"` // the one it is based on
	Stage   retire.Stage  `json:"stage"`
	State   *retire.State `json:"state"`
	Reason  string        `json:"reason"`
	Force   bool          `json:"force"`
	Digest  string        `json:"digest"`
}

// SetStage answers PUT /admin/stage: {version, stage or state, reason, force, digest}.
func (a *Admin) SetStage(w http.ResponseWriter, r *http.Request) {
	var want wanted
	if a.fixed(w) || !read(w, r, &want) {
		return
	}
	current := a.o.Keeper.State()
	var errs []error
	next := *current
	switch {
	case (want.Stage == "") == (want.State == nil):
		errs = append(errs, errors.New("either stage or state must be set"))
	case want.State != nil:
		next = *want.State
	default:
		s, err := retire.ParseStage(string(want.Stage))
		next.Stage, errs = s, append(errs, err)
	}
	if want.Version == nil {
		errs = append(errs, errors.New("version: the version that the change is based on must be set; GET /admin/stage has it"))
	}
	if err := errors.Join(errs...); err != nil {
		refuse(w, http.StatusBadRequest, "invalid", err.Error())
		return
	}
	c := a.change(r, want)
	c.State = next
	s, err := a.o.Keeper.Set(r.Context(), c)
	a.changed(w, s, err)
}

// Undo answers POST /admin/undo: {version, reason, force}. It takes the last change back.
func (a *Admin) Undo(w http.ResponseWriter, r *http.Request) {
	var want wanted
	if a.fixed(w) || !read(w, r, &want) {
		return
	}
	if want.Version == nil {
		refuse(w, http.StatusBadRequest, "invalid", "version: the current version must be set; GET /admin/stage has it")
		return
	}
	s, err := a.o.Keeper.Undo(r.Context(), a.change(r, want))
	a.changed(w, s, err)
}

// change is a change by the caller, without its state.
func (a *Admin) change(r *http.Request, want wanted) retire.Change {
	return retire.Change{
		Version: *want.Version, Actor: actor, Origin: retire.FromAPI, Remote: a.o.Addr(r), Reason: want.Reason, Force: want.Force, Digest: want.Digest,
	}
}

// Exempt answers POST /admin/exemptions: {id, until, owner, reason}. An exemption of the same id is replaced.
func (a *Admin) Exempt(w http.ResponseWriter, r *http.Request) {
	var e retire.Exemption
	if a.fixed(w) || !read(w, r, &e) {
		return
	}
	if e.ID == "" || e.Until.IsZero() {
		refuse(w, http.StatusBadRequest, "invalid", "id and until must be set")
		return
	}
	a.exemptions(w, r, "exempts "+e.ID, e.Reason, func(list []retire.Exemption) ([]retire.Exemption, error) {
		list = slices.DeleteFunc(list, func(o retire.Exemption) bool { return o.ID == e.ID })
		return append(list, e), nil
	})
}

var errNoExemption = errors.New("no such exemption")

// Unexempt answers DELETE /admin/exemptions?id=ID.
func (a *Admin) Unexempt(w http.ResponseWriter, r *http.Request) {
	if a.fixed(w) {
		return
	}
	id := r.URL.Query().Get("id")
	a.exemptions(w, r, "exempts "+id+" no longer", "", func(list []retire.Exemption) ([]retire.Exemption, error) {
		n := len(list)
		list = slices.DeleteFunc(list, func(o retire.Exemption) bool { return o.ID == id })
		if len(list) == n {
			return nil, errNoExemption
		}
		return list, nil
	})
}

// exemptions changes the list against the current document, and again if another change comes in between.
func (a *Admin) exemptions(w http.ResponseWriter, r *http.Request, what, why string, edit func([]retire.Exemption) ([]retire.Exemption, error)) {
	if why != "" {
		what += ": " + why
	}
	for {
		next := *a.o.Keeper.State()
		list, err := edit(slices.Clone(next.Exemptions))
		if err != nil {
			refuse(w, http.StatusNotFound, "not_found", "id: nobody is exempt by that id; GET /admin/stage lists who is")
			return
		}
		next.Exemptions = list
		c := a.change(r, wanted{Version: &next.Version, Reason: what})
		c.State = next
		s, err := a.o.Keeper.Set(r.Context(), c)
		if errors.Is(err, retire.ErrStale) && r.Context().Err() == nil {
			continue
		}
		a.changed(w, s, err)
		return
	}
}

// changed answers what became of a change.
func (a *Admin) changed(w http.ResponseWriter, s *retire.State, err error) {
	for _, k := range []struct {
		err    error
		status int
		code   string
	}{
		{retire.ErrStale, http.StatusConflict, "stale"},
		{retire.ErrNotReady, http.StatusConflict, "not_ready"},
		{retire.ErrNothingToUndo, http.StatusConflict, "nothing_to_undo"},
		{retire.ErrNoReason, http.StatusBadRequest, "invalid"},
		{retire.ErrInvalid, http.StatusBadRequest, "invalid"},
		{retire.ErrLocked, http.StatusServiceUnavailable, "locked"},
		{retire.ErrClosed, http.StatusServiceUnavailable, "closed"},
	} {
		if errors.Is(err, k.err) {
			refuse(w, k.status, k.code, err.Error())
			return
		}
	}
	if err != nil {
		a.unreadable(w, "retirement state", err)
		return
	}
	answer(w, http.StatusOK, stateAnswer{State: s})
}

// fixed answers 409 if the stage is not decided here.
func (a *Admin) fixed(w http.ResponseWriter) bool {
	if a.o.Fixed != "" {
		refuse(w, http.StatusConflict, "fixed", a.o.Fixed)
	}
	return a.o.Fixed != ""
}

// read decodes the body of a change into v. Only JSON is taken: no form of another site can send it.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "invalid", "the body must be application/json")
		return false
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("more than one JSON value")
		}
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		refuse(w, http.StatusRequestEntityTooLarge, "invalid", fmt.Sprintf("the body is over %d bytes", maxBody))
		return false
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid", "the body cannot be read: "+err.Error())
		return false
	}
	return true
}

// A preview says who a stage would refuse, by what was seen in the quiet period of the policy.
type preview struct {
	Stage   retire.Stage                 `json:"stage"`
	Version int64                        `json:"version"` // of the state that it was made with
	Checked bool                         `json:"checked"` // a step there needs the readiness check
	Verdict telemetry.Verdict            `json:"verdict"` // for that stage
	Digest  string                       `json:"digest"`  // of the report
	Days    int                          `json:"days"`
	Refused []telemetry.SimulatedRefusal `json:"refused"`
}

// Preview answers GET /admin/stage/preview?stage=STAGE.
func (a *Admin) Preview(w http.ResponseWriter, r *http.Request) {
	target, err := retire.ParseStage(r.URL.Query().Get("stage"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid", "stage: "+err.Error())
		return
	}
	report, err := a.o.Report(target, max(a.o.Quiet, telemetry.Day))
	if err != nil {
		a.unreadable(w, "ledger", err)
		return
	}
	state := a.o.Keeper.State()
	p := preview{
		Stage: target, Version: state.Version, Verdict: report.Verdict, Digest: report.Digest, Days: report.Window.Days,
		Checked: target.After(state.Stage) && target.After(retire.Warn), Refused: []telemetry.SimulatedRefusal{},
	}
	if s := report.Simulation; s != nil {
		p.Days = s.Days
		if target.After(retire.Warn) {
			p.Refused = append(p.Refused, s.Identities...)
		}
	}
	answer(w, http.StatusOK, p)
}
