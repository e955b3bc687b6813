# Targets and what they do: make help. What review runs is make check.

GO          ?= go
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# All its rules are on; exceptions stand at the line with their reason. Tests have no business with it.
GOSEC       := github.com/securego/gosec/v2/cmd/gosec@v2.30.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
# What is known on a fixed day, so that the check fails by a change here only; VULNDB=golang.org/x/vulndb@latest asks about today.
VULNDB      ?= golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018
TOOLCHAIN   := $(shell awk '$$1 == "toolchain" { print $$2 }' go.mod)
FUZZTIME    ?= 60s
BENCHTIME   ?= 1s
COUNT       ?= 1

.PHONY: help run build test check format vet staticcheck gosec vuln imports reproducible race nolegacy fuzz bench interop conformance streams retirement load load-full browser oauth clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## serve the built-in demo server on 127.0.0.1:8420; ARGS="-- COMMAND" wraps another
	@$(GO) build -o bin/bridge ./cmd/bridge && exec bin/bridge serve $(ARGS)

build: ## build bin/bridge
	GOTOOLCHAIN=$(TOOLCHAIN) CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.released=$(VERSION)' -o bin/bridge ./cmd/bridge

test: ## run all tests, those against other people's SDKs too
	$(GO) test ./...
	cd internal/thirdparty && $(GO) test ./...
	cd test/load && $(GO) vet ./... && $(GO) test ./...

check: format vet staticcheck gosec vuln reproducible imports race nolegacy ## run what review runs

format: ## list files that gofmt would change, and fail if there are any
	@files=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); test -z "$$files" || { echo "gofmt would change:"; echo "$$files"; exit 1; }

vet: ## go vet, in both builds
	$(GO) vet ./...
	$(GO) vet -tags nolegacy ./...

staticcheck: ## staticcheck, in both builds
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(STATICCHECK) -tags nolegacy ./...

gosec: ## what is often a weakness, in code that is no test
	$(GO) run $(GOSEC) -quiet -exclude-generated -exclude-dir=test -exclude-dir=internal/thirdparty ./...

vuln: ## known vulnerabilities in what the program calls, built as a release is; the database comes as a module
	@db=$$($(GO) mod download -json $(VULNDB) | awk -F '"' '$$2 == "Dir" { print $$4 }') && \
	GOTOOLCHAIN=$(TOOLCHAIN) $(GO) run $(GOVULNCHECK) -db "file://$$db/data/osv" ./cmd/bridge

reproducible: ## build a release in two folders; both must be the same to the byte
	@set -e; copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; mkdir "$$copy/a" "$$copy/b"; \
	git ls-files -co --exclude-standard | while read -r f; do test ! -f "$$f" || echo "$$f"; done | tar -cf - -T - | tee "$$copy/tar" | tar -xf - -C "$$copy/a"; \
	tar -xf "$$copy/tar" -C "$$copy/b"; \
	for d in a b; do $(MAKE) -s --no-print-directory -C "$$copy/$$d" build VERSION=reproducible; done; \
	cmp "$$copy/a/bin/bridge" "$$copy/b/bin/bridge" && sha256sum < "$$copy/a/bin/bridge"

imports: ## check the import table
	$(GO) test -run 'Imports|Violations|LegacyCanBeDeleted' .

race: ## run all tests with the race detector
	$(GO) test -race ./...

nolegacy: ## run the tests without legacy/, in a copy that has no such folder
	@set -e; copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; \
	git ls-files -co --exclude-standard | while read -r f; do test ! -f "$$f" || echo "$$f"; done | tar -cf - -T - | tar -xf - -C "$$copy"; \
	rm -rf "$$copy/legacy"; cd "$$copy"; \
	echo "$(GO) test -short -tags nolegacy ./..."; $(GO) test -short -tags nolegacy ./...

fuzz: ## run each fuzz target for FUZZTIME
	@set -e; grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r dir; do \
	  for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$dir/*_test.go | cut -d' ' -f2); do \
	    echo "$$dir $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$dir; \
	  done; done

bench: ## run the benchmarks, each COUNT times for BENCHTIME, in the form benchstat reads
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -count $(COUNT) ./...

interop: ## published clients of every age against the bridge; needs node and npm
	test/interop/ci

conformance: ## the official conformance suite against the bridge; needs node and npm
	test/conformance/ci

streams: ## proxies, cuts, restarts and crowds at full size; needs nginx and HAProxy
	test/streams/ci

retirement: ## published clients at every stage of the retirement; needs node and npm
	test/retirement/ci

load: ## calls/s, CPU and memory beside nginx, a bare proxy and the floor; some four minutes
	test/load/ci

load-full: ## every row of docs/performance.md; a quarter of an hour on a quiet machine, goes on where it stopped
	test/load/ci -full

oauth: ## published TypeScript clients sign in with OAuth; needs node and npm
	test/interop/oauth

browser: ## the dashboard in headless Chromium; needs node, npm and Debian's chromium
	test/browser/ci

clean: ## remove what was built and the caches of the tests
	rm -rf bin .cache
	$(GO) clean -testcache
