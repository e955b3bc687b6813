package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcp-dualstack/bridge/telemetry"
)

// otlpFlush is how long a collector that does not answer may hold up the end.
const otlpFlush = 3 * time.Second

// export sends traces and metrics over OTLP where the standard environment variables of OpenTelemetry say so, and nowhere
// otherwise: OTEL_EXPORTER_OTLP_ENDPOINT for both, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and ..._METRICS_ENDPOINT for one of them, or
// OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER with the value otlp. What else there is of them the exporters read themselves:
// headers, certificates, compression, intervals, samplers. end sends what is outstanding; it is never nil. The error is about
// variables that ask for what is not built in.
func export(version string, log *slog.Logger) (e telemetry.Export, end func(), err error) {
	end = func() {}
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return e, end, nil
	}
	traces, tracesErr := wanted("TRACES")
	metrics, metricsErr := wanted("METRICS")
	if err := errors.Join(tracesErr, metricsErr); err != nil || !traces && !metrics {
		return e, end, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry could not be sent", "err", err) }))
	if metrics {
		x, err := otlpmetrichttp.New(context.Background())
		if err != nil {
			return e, end, fmt.Errorf("make the OTLP exporter of metrics: %w", err)
		}
		e.Readers = append(e.Readers, sdkmetric.NewPeriodicReader(x))
	}
	if traces {
		x, err := otlptracehttp.New(context.Background())
		if err != nil {
			return e, end, fmt.Errorf("make the OTLP exporter of traces: %w", err)
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(x), sdktrace.WithResource(telemetry.Resource(version)))
		e.Tracer = provider
		end = func() {
			ctx, cancel := context.WithTimeout(context.Background(), otlpFlush)
			defer cancel()
			if err := provider.Shutdown(ctx); err != nil {
				log.Warn("the last spans could not be sent", "err", err)
			}
		}
	}
	log.Info("telemetry is sent over OTLP", "traces", traces, "metrics", metrics)
	return e, end, nil
}

// wanted reports whether TRACES or METRICS are to be sent over OTLP.
func wanted(signal string) (bool, error) {
	exporter := "OTEL_" + signal + "_EXPORTER"
	switch v := strings.ToLower(strings.TrimSpace(os.Getenv(exporter))); v {
	case "":
		if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") == "" {
			return false, nil
		}
	case "none", "prometheus": // the admin listener has the latter anyway
		return false, nil
	case "otlp":
	default:
		return false, fmt.Errorf("%s: %q is not built in; use otlp or none", exporter, v)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch v := os.Getenv(name); v {
		case "":
			continue
		case "http/protobuf":
			return true, nil
		default:
			return false, fmt.Errorf("%s: %q is not built in; use http/protobuf, which collectors take on port 4318", name, v)
		}
	}
	return true, nil
}
