package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Outcomes of a request.
const (
	outcomeOK        = "ok"
	outcomeToolError = "tool_error" // the tool said that it failed
	outcomeError     = "error"      // the server refused the request
	outcomeFailed    = "failed"     // there was no answer
	outcomeCancelled = "cancelled"
)

// An operation is what one series of a duration is about.
type operation struct {
	method  string // as a label value
	subject string // tool or prompt; empty: none
	fault   string // error.type; empty: none
	code    string // of the error the server answered; empty: it did not
	outcome string
}

// folded returns op without what makes series many.
func (op operation) folded() operation {
	for _, field := range []*string{&op.subject, &op.fault, &op.code} {
		if *field != "" {
			*field = other
		}
	}
	return op
}

// attributes returns those of a series and of a span.
func (op operation) attributes() []attribute.KeyValue {
	a := []attribute.KeyValue{keyMethod.String(op.method)}
	if op.subject != "" {
		switch op.method {
		case "tools/call":
			a = append(a, keyTool.String(op.subject))
		case "prompts/get":
			a = append(a, keyPrompt.String(op.subject))
		}
	}
	if op.method == "tools/call" {
		a = append(a, keyOperation.String("execute_tool"))
	}
	return append(a, op.outcomeAttributes()...)
}

// outcomeAttributes returns those that are known at the end only.
func (op operation) outcomeAttributes() []attribute.KeyValue {
	var a []attribute.KeyValue
	if op.fault != "" {
		a = append(a, keyErrorType.String(op.fault))
	}
	if op.code != "" {
		a = append(a, keyStatusCode.String(op.code))
	}
	return a
}

// ended returns op with what came of it.
func (op operation) ended(ctx context.Context, resp exchange.Response, err error) operation {
	switch {
	case err != nil && cancelled(ctx, err):
		op.outcome, op.fault = outcomeCancelled, outcomeCancelled
	case err != nil:
		op.outcome, op.fault = outcomeFailed, failureLabel(err)
	case resp.Error != nil:
		op.outcome, op.code = outcomeError, codeLabel(resp.Error.Code)
		op.fault = op.code
	case op.method == "tools/call" && negotiate.IsToolError(resp.Result):
		op.outcome, op.fault = outcomeToolError, outcomeToolError
	default:
		op.outcome = outcomeOK
	}
	return op
}

// refusedOpen returns op with the error of an Open, which may be what the server answered.
func (op operation) refusedOpen(ctx context.Context, err error) operation {
	if e, ok := errors.AsType[*exchange.Error](err); ok {
		return op.ended(ctx, exchange.Response{Error: e}, nil)
	}
	return op.ended(ctx, exchange.Response{}, err)
}

// failureLabel returns why there was no answer.
func failureLabel(err error) string {
	if f, ok := errors.AsType[*exchange.Failure](err); ok {
		if failures[f.Reason] {
			return f.Reason
		}
		return other
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return exchange.ReasonTimeout
	}
	return exchange.ReasonBridge
}
