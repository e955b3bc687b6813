package streams

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// A proxy is a reverse proxy of others' making, as people have it in front of servers.
type proxy struct {
	name string
	// extra are further lines of its configuration, about the Host that it sends and what else is forwarded.
	extra string
	flags []string // of the bridge, where it cannot find out by itself
	start func(tb testing.TB, p proxy, to string, silence time.Duration) (base string)
}

var (
	nginx   = proxy{name: "nginx", start: startNginx}
	haproxy = proxy{name: "haproxy", start: startHAProxy}
)

func (p proxy) with(name, extra string, flags ...string) proxy {
	p.name, p.extra, p.flags = name, extra, flags
	return p
}

// startNginx starts nginx with its defaults, buffering on, but for the time it bears silence of a server.
func startNginx(tb testing.TB, p proxy, to string, silence time.Duration) string {
	tb.Helper()
	program := needTool(tb, "nginx")
	addr := harness.FreeAddr(tb)
	dir := tb.TempDir()
	config := fmt.Sprintf(`
daemon off;
master_process off; # one process, which the test can end
pid nginx.pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
	access_log off;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	server {
		listen %s;
		location / {
			proxy_pass http://%s;
			proxy_read_timeout %dms;
			%s
		}
	}
}
`, addr, to, silence.Milliseconds(), p.extra)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		tb.Fatal(err)
	}
	harness.Start(tb, exec.Command(program, "-p", dir, "-e", "stderr", "-c", file)).Listens(tb, addr)
	return "http://" + addr
}

// startHAProxy starts HAProxy in HTTP mode.
func startHAProxy(tb testing.TB, p proxy, to string, silence time.Duration) string {
	tb.Helper()
	program := needTool(tb, "haproxy")
	addr := harness.FreeAddr(tb)
	config := fmt.Sprintf(`
global
	maxconn 1024
defaults
	mode http
	timeout connect 5s
	timeout client %[1]dms
	timeout server %[1]dms
listen bridge
	bind %[2]s
	%[3]s
	server bridge %[4]s
`, silence.Milliseconds(), addr, p.extra, to)
	file := filepath.Join(tb.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		tb.Fatal(err)
	}
	harness.Start(tb, exec.Command(program, "-db", "-f", file)).Listens(tb, addr)
	return "http://" + addr
}
