package rigtest

import "strings"

// AdvisedSetValues returns the values of --set in the fix of an error.
func AdvisedSetValues(text string) []string {
	_, advice, _ := strings.Cut(text, "(add ")
	advice, _, _ = strings.Cut(advice, ")")
	return SetValues(strings.Fields(advice))
}

// SetValues returns the values of --set in a command line.
func SetValues(args []string) (set []string) {
	for i, arg := range args {
		if arg == "--set" {
			set = append(set, args[i+1])
		}
	}
	return set
}
