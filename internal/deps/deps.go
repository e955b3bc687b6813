//go:build deps

// Package deps keeps modules in go.mod until the packages that need them are built.
package deps

import (
	_ "github.com/Masterminds/semver/v3"
	_ "github.com/coreos/go-oidc/v3/oidc"
	_ "github.com/fsnotify/fsnotify"
	_ "github.com/go-jose/go-jose/v4/jwt"
	_ "github.com/modelcontextprotocol/go-sdk/auth"
	_ "github.com/modelcontextprotocol/go-sdk/oauthex"
	_ "github.com/pires/go-proxyproto"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/prometheus/client_golang/prometheus/testutil"
	_ "github.com/prometheus/client_golang/prometheus/testutil/promlint"
	_ "github.com/realclientip/realclientip-go"
	_ "github.com/rs/cors"
	_ "go.opentelemetry.io/otel"
	_ "go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	_ "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	_ "go.opentelemetry.io/otel/exporters/prometheus"
	_ "go.opentelemetry.io/otel/metric"
	_ "go.opentelemetry.io/otel/propagation"
	_ "go.opentelemetry.io/otel/sdk/metric"
	_ "go.opentelemetry.io/otel/sdk/metric/metricdata"
	_ "go.opentelemetry.io/otel/sdk/trace"
	_ "go.opentelemetry.io/otel/sdk/trace/tracetest"
	_ "go.opentelemetry.io/otel/semconv/v1.37.0"
	_ "go.opentelemetry.io/otel/trace"
	_ "golang.org/x/oauth2"
	_ "golang.org/x/time/rate"
)
