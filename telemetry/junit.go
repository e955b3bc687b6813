package telemetry

import (
	"encoding/xml"
	"fmt"
	"io"
)

type junitSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Suite   junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string      `xml:"name,attr"`
	Timestamp string      `xml:"timestamp,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Cases     []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string      `xml:"classname,attr"`
	Name    string      `xml:"name,attr"`
	Failure *junitFault `xml:"failure"`
	Error   *junitFault `xml:"error"`
	Skipped *junitFault `xml:"skipped"`
}

type junitFault struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
}

// WriteJUnit writes r as a JUnit test suite, for a pipeline that shows those: a case for every identity that uses HTTP+SSE and for every
// reason of the verdict. Blockers are failures, doubts errors, warnings skipped.
func (r Report) WriteJUnit(w io.Writer) error {
	s := junitSuite{Name: "HTTP+SSE retirement, step to " + r.Target, Timestamp: r.GeneratedAt.Format("2006-01-02T15:04:05")}
	s.add("verdict", string(r.Verdict), nil)
	for _, f := range r.Blockers {
		s.add("blocker", f.name(), func(c *junitCase) { c.Failure = f.fault(); s.Failures++ })
	}
	for _, f := range r.Doubts {
		s.add("doubt", f.name(), func(c *junitCase) { c.Error = f.fault(); s.Errors++ })
	}
	for _, f := range r.Warnings {
		s.add("warning", f.name(), func(c *junitCase) { c.Skipped = f.fault(); s.Skipped++ })
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(junitSuites{Suite: s}); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

func (s *junitSuite) add(class, name string, fault func(*junitCase)) {
	c := junitCase{Class: class, Name: name}
	if fault != nil {
		fault(&c)
	}
	s.Cases = append(s.Cases, c)
	s.Tests++
}

func (f Finding) name() string {
	if f.ID == "" {
		return f.Code
	}
	return f.Code + " " + f.ID
}

func (f Finding) fault() *junitFault { return &junitFault{Message: f.Detail, Type: f.Code} }
