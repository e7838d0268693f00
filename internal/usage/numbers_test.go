package usage

import (
	"io"
	"testing"

	"github.com/spf13/cobra"
)

func TestRefuseLeadingZeros(t *testing.T) {
	for arg, accepted := range map[string]bool{
		"--seed=10": true, "--seed=010": false, "--rate=0.5": true, "--rate=010.5": false,
		"--cpus=1,2": true, "--cpus=1,010": false, "--name=010": true, "--wait=5s": true, "--wait=05s": false,
	} {
		root := &cobra.Command{Use: "root"}
		sub := &cobra.Command{Use: "sub", RunE: func(*cobra.Command, []string) error { return nil }}
		root.AddCommand(sub)
		sub.Flags().Uint64("seed", 0, "")
		sub.Flags().Float64("rate", 0, "")
		sub.Flags().IntSlice("cpus", nil, "")
		sub.Flags().String("name", "", "")
		sub.Flags().Duration("wait", 0, "")
		RefuseLeadingZeros(root)
		root.SetArgs([]string{"sub", arg})
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		if err := root.Execute(); (err == nil) != accepted {
			t.Errorf("%s: %v", arg, err)
		}
		if seed, err := sub.Flags().GetUint64("seed"); err != nil || arg == "--seed=10" && seed != 10 {
			t.Errorf("%s: seed %d, %v", arg, seed, err)
		}
	}
}
