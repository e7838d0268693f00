//go:build !robot

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/lab/eval"
	"optibfm/lab/eval/report"
)

// writeResults makes a results file of a main comparison of two trials, and
// returns its path.
func writeResults(t *testing.T, envs ...string) string {
	t.Helper()
	text := bytes.NewBufferString(strings.Join(eval.Columns, ",") + "\n")
	for _, env := range envs {
		for i, method := range []string{"oracle", "ucb", "thompson", "lola", "random"} {
			for trial := range 2 {
				row := eval.Row{Experiment: "main", Env: env, Task: "walk", Method: method, Trial: trial, Measure: eval.MeasureReturn, Version: "v1"}
				for episode := range 5 {
					row.X, row.Value = float64(episode), float64(900-200*i+trial)
					if err := eval.WriteRows(text, []eval.Row{row}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	path := filepath.Join(t.TempDir(), "results.csv")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func evalReportOutput(args ...string) (string, error) {
	cmd := newEvalReportCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func TestEvalReportMakesOnePageOfSeveralFiles(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "report")
	notes := filepath.Join(t.TempDir(), "notes.yaml")
	if err := os.WriteFile(notes, []byte("near-oracle: |\n  The oracle of this test\n  is too good.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := evalReportOutput(writeResults(t, "walker"), writeResults(t, "cheetah"), "--out", folder, "--resamples", "200", "--notes", notes)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(folder, "index.html"))
	if err != nil || !bytes.Contains(page, []byte("The oracle of this test")) {
		t.Errorf("the page lacks the note: %v", err)
	}
	for _, want := range []string{"100 rows, 20 trials", "  cheetah  ucb", "  walker   ucb", "does not hold *  near-oracle", "  not run          data, ", filepath.Join(folder, "index.html")} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	for _, name := range []string{"index.html", "estimates.csv", "figures/main.svg", "figures/main.png"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestEvalReportSaysWhatIsWrongWithAFileAndWritesNothing(t *testing.T) {
	good := writeResults(t, "walker")
	header := strings.Join(eval.Columns, ",") + "\n"
	for content, want := range map[string]error{
		"":                            eval.ErrResults,
		"a,b\n":                       eval.ErrResults,
		header + "main,walker,walk\n": eval.ErrResults,
		header:                        report.ErrNoRows,
		fmt.Sprintf("%s%s", header, strings.Repeat("x,", len(eval.Columns)-1)+"x\n"): eval.ErrResults,
	} {
		path := filepath.Join(t.TempDir(), "bad.csv")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(t.TempDir(), "report")
		_, err := evalReportOutput(path, "--out", folder)
		if !errors.Is(err, want) || want == eval.ErrResults && !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", content, err)
		}
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: there is a report: %v", content, err)
		}
	}
	if _, err := evalReportOutput(good, filepath.Join(t.TempDir(), "none.csv")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := evalReportOutput(good, "--resamples", "5", "--out", t.TempDir()); err == nil || !strings.Contains(err.Error(), "at least 100") {
		t.Errorf("five draws: %v", err)
	}
	if _, err := evalReportOutput(good, "--notes", good, "--out", t.TempDir()); err == nil || !strings.Contains(err.Error(), "want lines of NAME: TEXT") {
		t.Errorf("results as notes: %v", err)
	}
	if _, err := evalReportOutput(); err == nil {
		t.Error("no file is enough")
	}
}
