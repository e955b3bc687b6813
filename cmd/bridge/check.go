package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func checkCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Check a configuration and report every problem at once",
		Long: `check reads the settings as serve would, from the file, the environment and the same flags, starts nothing,
and prints every setting with the place it comes from, or every problem.

` + exitCodeHelp,
		Example: `  bridge check --config bridge.yaml`,
		Args:    afterDash,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			c, err := load(cmd.Flags(), args)
			if err != nil {
				return problemList("the configuration", err)
			}
			if output == "json" {
				return writeSettingsJSON(cmd, c)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
			fmt.Fprintln(w, "SETTING\tVALUE\tFROM")
			for _, r := range c.settings {
				fmt.Fprintf(w, "%s\t%s\t%s\n", r.key, r.value, r.origin)
			}
			return w.Flush()
		},
	}
	addConfig(cmd.Flags())
	addSettings(cmd.Flags())
	addOutput(cmd, &output)
	cmd.Flags().SortFlags = false
	return cmd
}

// writeSettingsJSON writes [{"setting","value","from"}].
func writeSettingsJSON(cmd *cobra.Command, c *config) error {
	type row struct {
		Setting string `json:"setting"`
		Value   string `json:"value"`
		From    string `json:"from"`
	}
	rows := make([]row, len(c.settings))
	for i, r := range c.settings {
		rows[i] = row{r.key, r.value, r.origin}
	}
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(rows)
}
