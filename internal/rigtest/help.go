package rigtest

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"optibfm/internal/errtest"
)

var textLine = regexp.MustCompile(`(?m)^.*\S.*$`)

// comment matches the text behind an example, which begins after two spaces.
var comment = regexp.MustCompile(`\s{2,}\S.*$|\s+#.*$|\s>\s.*$`)

// CheckHelp checks the help texts of a program: a long text has at most 15 lines of text and
// 100 columns, and each example of the program parses.
func CheckHelp(t *testing.T, root *cobra.Command) {
	t.Helper()
	commands := []*cobra.Command{root}
	for len(commands) > 0 {
		c := commands[0]
		commands = append(commands[1:], c.Commands()...)
		if n := len(textLine.FindAllString(c.Long, -1)); n > 15 {
			t.Errorf("%s: the long text has %d lines", c.CommandPath(), n)
		}
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 {
				t.Errorf("%s: a line of %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for line := range strings.Lines(c.Example) {
			line = comment.ReplaceAllString(strings.TrimSpace(line), "")
			if words := strings.Fields(line); len(words) > 1 && words[0] == root.Name() {
				checkExample(t, root, words[1:])
			}
		}
	}
}

func checkExample(t *testing.T, root *cobra.Command, words []string) {
	t.Helper()
	found, args, err := root.Find(words)
	if err == nil {
		err = found.ParseFlags(args)
	}
	if err == nil {
		err = found.ValidateArgs(found.Flags().Args())
	}
	if err == nil {
		err = found.ValidateRequiredFlags()
	}
	errtest.Nil(t, err, "the example ", strings.Join(words, " "))
}

// Contains reports parts that a text lacks.
func Contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}
