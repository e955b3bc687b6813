package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// typescriptServer returns the main file of the servers in typescript/, installed into the cache folder of the user with the packages
// that the lockfile pins, once per version of both. Several tests may do it at once.
var typescriptServer = sync.OnceValues(func() (string, error) {
	files := []string{"package.json", "package-lock.json", "server.mjs"}
	hash := sha256.New()
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join("typescript", name))
		if err != nil {
			return "", err
		}
		hash.Write(text)
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, fmt.Sprintf("e2e-typescript-%x", hash.Sum(nil)[:6]))
	main := filepath.Join(dir, "server.mjs")
	if _, err := os.Stat(main); err == nil {
		return main, nil
	}
	fresh, err := os.MkdirTemp(cache, "installing-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join("typescript", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(fresh, name), text, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	npm := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir = fresh
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci in %s: %w\n%s", dir, err, out)
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, there := os.Stat(main); there != nil {
			return "", err
		} // otherwise another run was first
	}
	return main, nil
})

// cacheFolder is where test/interop keeps its packages too.
func cacheFolder() (string, error) {
	dir := os.Getenv("MCP_BRIDGE_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(user, "mcp-bridge")
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// needTypescript returns the main file of the servers on old releases of the TypeScript SDK. Without node or npm the test is skipped, but
// where CI is set it fails.
func needTypescript(tb testing.TB) string {
	tb.Helper()
	needEverything(tb) // the same tools, the same rule
	main, err := typescriptServer()
	if err != nil {
		tb.Fatal(err)
	}
	return main
}
