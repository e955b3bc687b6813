package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcp-dualstack/bridge/retire"
)

func retireExempt(f *retireFlags) *cobra.Command {
	var e retire.Exemption
	var until string
	var remove bool
	cmd := &cobra.Command{
		Use:   "exempt ID",
		Short: "Keep a client out of refusals until a date",
		Long: `exempt keeps the client with the identity ID, as bridge report --output json names it, out of every refusal until
--until. An identity made of the client's own name is known when it says it, which is after its stream was opened.

` + retireCodes,
		Example: `  bridge retire exempt sub:9f21c0 --until 2027-02-01 --owner billing-batch --reason "vendor fix in January"
  bridge retire exempt sub:9f21c0 --remove`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e.ID = args[0]
			var err error
			switch {
			case remove && until != "":
				return misused("--remove: ends the exemption at once; leave --until out")
			case !remove && until == "":
				return misused("--until DATE must be given, such as --until 2027-02-01")
			case !remove:
				if e.Until, err = parseDate("until", until); err != nil {
					return err
				}
			}
			return f.run(cmd, func(ctx context.Context, p place) error {
				s, _, err := p.state(ctx)
				if err != nil {
					return err
				}
				c := retire.Change{Version: s.Version, State: *s, Reason: "exempts " + e.ID + because(e.Reason)}
				c.State.Exemptions = slices.DeleteFunc(slices.Clone(s.Exemptions), func(x retire.Exemption) bool { return x.ID == e.ID })
				switch {
				case !remove:
					c.State.Exemptions = append(c.State.Exemptions, e)
				case len(c.State.Exemptions) == len(s.Exemptions):
					return failed("%s is not exempt; bridge retire show lists who is", oneLine(e.ID))
				default:
					c.Reason = "exempts " + e.ID + " no longer" + because(e.Reason)
				}
				now, err := p.set(ctx, c)
				if err != nil {
					return err
				}
				return f.changed(cmd.OutOrStdout(), s, now)
			})
		},
	}
	cmd.Flags().StringVar(&until, "until", "", "date on which the exemption ends")
	cmd.Flags().StringVar(&e.Owner, "owner", "", "who answers for the client")
	cmd.Flags().StringVar(&e.Reason, "reason", "", "why")
	cmd.Flags().BoolVar(&remove, "remove", false, "end the exemption of ID")
	cmd.Flags().SortFlags = false
	return cmd
}
