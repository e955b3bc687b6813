package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	bridge "github.com/mcp-dualstack/bridge"
)

// released is the version that make build writes here; empty in other builds.
var released string

// version returns the version of this build, or what the module system knows of it.
func version() string {
	if released != "" {
		return released
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

// commit returns the commit of this build, "" if it is not known.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

func versionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the revisions served and how this was built",
		Long:    "version prints the version, the MCP revisions served and how this was built.\n\n" + exitCodeHelp,
		Example: `  bridge version --output json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if output == "json" {
				return json.NewEncoder(w).Encode(map[string]any{
					"version": version(), "revisions": bridge.Revisions(), "legacy": bridge.LegacyBuilt,
					"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "commit": commit(),
				})
			}
			fmt.Fprintf(w, "bridge     %s\n", version())
			fmt.Fprintf(w, "revisions  %s\n", strings.Join(bridge.Revisions(), ", "))
			fmt.Fprintf(w, "transports %s\n", transports())
			fmt.Fprintln(w, strings.TrimSpace(fmt.Sprintf("built      %s %s/%s %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, commit())))
			return nil
		},
	}
	addOutput(cmd, &output)
	return cmd
}

func transports() string {
	if bridge.LegacyBuilt {
		return "HTTP+SSE, Streamable HTTP"
	}
	return "Streamable HTTP (built without HTTP+SSE)"
}
