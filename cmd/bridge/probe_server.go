package main

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcp-dualstack/bridge/upstream"
)

// The flags of probe that say how the server is reached. Those of a URL have a second name, which is that of serve.
const (
	headerFlag = "header"
	bearerFlag = "bearer-file"
	caFlag     = "ca-file"
)

// addReach adds the flags by which probe reaches the server, each as serve has it.
func addReach(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch short := strings.TrimPrefix(name, "upstream-"); short {
		case headerFlag, bearerFlag, caFlag:
			name = short
		}
		return pflag.NormalizedName(name)
	})
	fs.StringArray(headerFlag, nil, "header for every request to the URL, as Name: value (repeatable); serve calls it --upstream-header")
	fs.String(bearerFlag, "", "file with the token for the URL; serve calls it --upstream-bearer-file")
	fs.String(caFlag, "", "PEM certificates that the URL is trusted by, beside the system's; serve calls it --upstream-ca-file")
	addChild(fs)
}

// probed returns the server that the arguments name, and that name without what may be secret.
func probed(cmd *cobra.Command, args []string, o *upstream.Options) (upstream.Connector, string, error) {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash == 0 && len(args) > 0:
		up, err := probedCommand(cmd, args, o)
		return up, filepath.Base(args[0]), err
	case dash < 0 && len(args) == 1:
		up, err := probedURL(cmd, args[0], o)
		return up, printable(upstream.Shown(args[0])), err
	case len(args) == 0:
		return nil, "", misused("name a server: a URL, or a command after --")
	}
	return nil, "", misused("one URL, or one command after --, and not both")
}

func probedCommand(cmd *cobra.Command, words []string, o *upstream.Options) (upstream.Connector, error) {
	if f := given(cmd, headerFlag, bearerFlag, caFlag); f != "" {
		return nil, misused("--%s: it is for a URL, and there is a command", f)
	}
	var x surroundings
	x.dir, _ = cmd.Flags().GetString(childDirFlag) // defined above
	x.env, _ = cmd.Flags().GetStringArray(childEnvFlag)
	if err := x.checkDir(); err != nil {
		return nil, misused("--%s: %w", childDirFlag, err)
	}
	if err := x.checkEnv(); err != nil {
		return nil, misused("--%s: %w", childEnvFlag, err)
	}
	return upstream.Stdio(x.command(words), o), nil
}

func probedURL(cmd *cobra.Command, rawURL string, o *upstream.Options) (upstream.Connector, error) {
	if f := given(cmd, childDirFlag, childEnvFlag); f != "" {
		return nil, misused("--%s: it is for a command, and there is a URL", f)
	}
	lines, _ := cmd.Flags().GetStringArray(headerFlag) // defined above, as the others
	h, err := parseHeaders(lines)
	if err != nil {
		return nil, misused("--%s: %w", headerFlag, err)
	}
	o.HTTP = &upstream.HTTPOptions{Headers: h}
	o.HTTP.BearerFile, _ = cmd.Flags().GetString(bearerFlag)
	o.HTTP.CAFile, _ = cmd.Flags().GetString(caFlag)
	up, err := upstream.URL(rawURL, o)
	if err != nil {
		return nil, misused("%w; a command stands after --", err)
	}
	return up, nil
}

// given returns the first of the flags that was given, "" if none was.
func given(cmd *cobra.Command, names ...string) string {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// parseHeaders returns lines such as "Name: value" as a header. The values may be secrets and are in no error.
func parseHeaders(lines []string) (http.Header, error) {
	h := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, errors.New("a header is written as Name: value")
		}
		if strings.ContainsAny(line, "\r\n\x00") || strings.ContainsAny(name, " \t") {
			return nil, errors.New("a header is one line, with a name of one word")
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, nil
}
