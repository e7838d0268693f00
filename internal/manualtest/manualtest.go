// Package manualtest compares the commands of the manuals with a program. It runs none of them.
package manualtest

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"optibfm/configs"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// Manual is a Markdown file.
type Manual struct {
	Path string // in the repository
	Text string
	Code []Code
}

// Code is a command line of a block, or a span in a sentence.
type Code struct {
	Text  string
	Block bool
}

// Manuals returns those of the repository in a folder. notes.md is a source of docs/results.md.
func Manuals(t testing.TB, repository string) (manuals []Manual) {
	t.Helper()
	for _, pattern := range []string{
		"README.md", "CONTRIBUTING.md", "docs/*.md", "*/*.md", "*/*/*.md", "*/*/*/*.md",
	} {
		files, err := filepath.Glob(filepath.Join(repository, pattern))
		fatal.If(t, err)
		for _, file := range files {
			name := strings.TrimPrefix(file, filepath.Clean(repository)+"/")
			skip := slices.ContainsFunc(manuals, func(m Manual) bool { return m.Path == name }) ||
				name == "lab/experiments/notes.md" || strings.HasPrefix(name, ".") || strings.Contains(name, "testdata")
			if skip {
				continue
			}
			text, err := os.ReadFile(file)
			fatal.If(t, err)
			manuals = append(manuals, Manual{name, string(text), codeOf(string(text))})
		}
	}
	if len(manuals) < 25 {
		t.Errorf("found %d manuals", len(manuals))
	}
	return manuals
}

var (
	block    = regexp.MustCompile(`(?m)^    +(.*)$`)
	span     = regexp.MustCompile("`([^`]+)`")
	comment  = regexp.MustCompile(`(^|\s)#.*`)
	unquoted = strings.NewReplacer(`'`, "", `"`, "")
	parts    = regexp.MustCompile(`&&|\|\|?|;|>`)
)

// codeOf returns the code of a text, without comments.
func codeOf(text string) (all []Code) {
	joined := strings.ReplaceAll(text, "\\\n", " ")
	for _, m := range block.FindAllStringSubmatch(joined, -1) {
		if line := comment.ReplaceAllString(m[1], ""); !strings.Contains(line, "`") {
			all = append(all, Code{line, true})
		}
	}
	for _, m := range span.FindAllStringSubmatch(block.ReplaceAllString(joined, ""), -1) {
		all = append(all, Code{strings.Join(strings.Fields(m[1]), " "), false})
	}
	return all
}

// arguments returns the arguments of each call of a program.
func (c Code) arguments(program string) (calls [][]string) {
	for _, part := range parts.Split(c.Text, -1) {
		words := strings.Fields(unquoted.Replace(part))
		for len(words) > 0 {
			word := words[0]
			words = words[1:]
			begins := len(words) > 0 && words[0] != program && words[0][0] >= 'a' && words[0][0] <= 'z'
			if path.Base(word) == program && begins {
				calls = append(calls, words)
				break
			}
		}
	}
	return calls
}

// CheckCommands compares subcommands, flags, configuration names and keys of --set with a program.
// It checks the number of arguments and the required flags only in blocks: a sentence may name a
// command alone.
func CheckCommands(t *testing.T, repository string, root *cobra.Command, least int) {
	t.Helper()
	program, found := root.Name(), 0
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, m := range Manuals(t, repository) {
		for _, c := range m.Code {
			for _, args := range c.arguments(program) {
				found++
				errtest.Nil(t, checkCall(root, args, c.Block), m.Path, ": ", program, " ", strings.Join(args, " "))
			}
		}
	}
	if found < least {
		t.Errorf("the manuals have %d commands of %s, want at least %d", found, program, least)
	}
}

func checkCall(root *cobra.Command, args []string, complete bool) error {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	defer cmd.Flags().Visit(reset)
	if err := cmd.ParseFlags(rest); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if complete && !slices.Contains(rest, "...") {
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			return err
		}
		if err := cmd.ValidateRequiredFlags(); err != nil {
			return err
		}
	}
	return checkConfiguration(cmd.Flags())
}

// reset gives a flag its default again.
func reset(f *pflag.Flag) {
	f.Changed = false
	if s, ok := f.Value.(pflag.SliceValue); ok {
		_ = s.Replace(nil)
		return
	}
	_ = f.Value.Set(f.DefValue)
}

var readyName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// checkConfiguration checks the names of ready-made configurations, and the keys that replace
// theirs.
func checkConfiguration(flags *pflag.FlagSet) error {
	text := []byte("version: 1")
	if f := flags.Lookup("config"); f != nil && readyName.MatchString(f.Value.String()) {
		ready, err := configs.Text(f.Value.String())
		if err != nil {
			return err
		}
		text = ready
	}
	if f := flags.Lookup("set"); f != nil {
		if set, ok := f.Value.(pflag.SliceValue); ok && f.Changed {
			if _, err := configs.Parse("manual", text, set.GetSlice()...); err != nil &&
				strings.Contains(err.Error(), "unknown key") {
				return err
			}
		}
	}
	return nil
}
