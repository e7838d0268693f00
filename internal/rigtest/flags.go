package rigtest

import (
	"strings"
)

// AdvisedSetValues returns the --set words of an error's fix.
func AdvisedSetValues(text string) []string {
	_, advice, _ := strings.Cut(text, "(add ")
	advice, _, _ = strings.Cut(advice, ")")
	return SetValues(strings.Fields(advice))
}

func SetValues(args []string) (set []string) {
	for i, arg := range args {
		if arg == "--set" {
			set = append(set, args[i+1])
		}
	}
	return set
}
