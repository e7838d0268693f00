package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestCompletion_ForTheShellsOfThePackage(t *testing.T) {
	for args, want := range map[string]string{
		"completion bash":         "complete -o default -F __start_optibfm optibfm",
		"completion zsh":          "#compdef optibfm\n",
		"completion fish":         "complete -c optibfm ",
		"__complete config val":   "validate\t",
		"__complete run --operat": "--operator\t",
	} {
		root := NewRootCommand()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(strings.Fields(args))
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: no %q, %v", args, want, err)
		}
	}
}
