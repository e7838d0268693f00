package rigtest

import (
	"strings"
)

// AdvisedSets returns the --set words of an error's fix.
func AdvisedSets(text string) []string {
	_, advice, _ := strings.Cut(text, "(add ")
	advice, _, _ = strings.Cut(advice, ")")
	return SetsOf(strings.Fields(advice))
}

func SetsOf(args []string) (set []string) {
	for i, arg := range args {
		if arg == "--set" {
			set = append(set, args[i+1])
		}
	}
	return set
}
