package usage

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"optibfm/internal/decimal"
)

// RefuseLeadingZeros makes the numeric flags of a command and its subcommands refuse numbers such
// as 010, which package flag reads as 8 for an integer and as 10 for a fraction.
func RefuseLeadingZeros(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if isNumber(f.Value.Type()) {
			f.Value = plainNumber{f.Value}
		}
	})
	for _, sub := range c.Commands() {
		RefuseLeadingZeros(sub)
	}
}

func isNumber(kind string) bool {
	for _, prefix := range []string{"int", "uint", "float", "duration", "count"} {
		if strings.HasPrefix(kind, prefix) {
			return true
		}
	}
	return false
}

// plainNumber is the value of a numeric flag, or of a list of numbers.
type plainNumber struct{ pflag.Value }

func (v plainNumber) Set(text string) error {
	for _, number := range strings.Split(strings.Trim(text, "[]"), ",") {
		if err := decimal.Check(number); err != nil {
			return err
		}
	}
	return v.Value.Set(text)
}
