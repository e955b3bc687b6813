package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/attribute"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
)

// ServiceName is service.name unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES say otherwise.
const ServiceName = "mcp-dualstack-bridge"

// Resource describes the program to a collector: its name, its version (empty: unknown) and what OTEL_RESOURCE_ATTRIBUTES and
// OTEL_SERVICE_NAME say, which counts before.
func Resource(version string) *resource.Resource {
	own := []attribute.KeyValue{attribute.String("service.name", ServiceName)}
	if version != "" {
		own = append(own, attribute.String("service.version", version))
	}
	r, err := resource.Merge(resource.NewSchemaless(own...), resource.Environment())
	if err != nil {
		return resource.NewSchemaless(own...) // the environment cannot be read: OpenTelemetry's error handler has been told
	}
	return r
}

// provide makes the meter provider with an exporter into the registry. The limit of the SDK is off: it keeps whoever comes
// first, so that an attacker's words would keep the slots (retirement.md 7). Every label has a bound of its own.
func (s *Signals) provide(registry *prometheus.Registry) error {
	exporter, err := promexporter.New(promexporter.WithRegisterer(registry), promexporter.WithoutScopeInfo())
	if err != nil {
		return fmt.Errorf("make the Prometheus exporter: %w", err)
	}
	options := []sdkmetric.Option{sdkmetric.WithReader(exporter), sdkmetric.WithResource(Resource(s.o.Version)), sdkmetric.WithCardinalityLimit(0)}
	for _, r := range s.o.Export.Readers {
		options = append(options, sdkmetric.WithReader(r))
	}
	if s.o.Export.Tracer == nil {
		options = append(options, sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter)) // they name traces, and there are none
	}
	s.provider = sdkmetric.NewMeterProvider(options...)
	for _, c := range []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("register the collectors of the process: %w", err)
		}
	}
	return nil
}
