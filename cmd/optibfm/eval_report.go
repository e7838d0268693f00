//go:build !robot

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"optibfm/lab/eval"
	"optibfm/lab/eval/report"
)

// evalReportFlags are the flags of eval report.
type evalReportFlags struct {
	out     string
	notes   string
	options report.Options
}

func newEvalReportCommand() *cobra.Command {
	f := evalReportFlags{}
	cmd := &cobra.Command{
		Use:   "report RESULTS.csv...",
		Short: "Figures, and what became of the paper's claims, as one page",
		Long: `Make a page, figures (SVG and PNG) and a table of estimates of what experiments
found, and print the summary.

The page is DIR/index.html. It loads nothing and has each of the paper's claims
with what was measured, the figures in the paper's order, and what reproduces
the numbers. Give the results of all experiments at once: an experiment that ran
no oracle is compared with the main comparison's.

The exit status says whether the report was made, not whether the claims hold.`,
		Example: `  optibfm eval report main.csv --out report
  optibfm eval report results/*.csv --out report`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.OutOrStdout(), args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "report", "`DIR` of the page and the figures; made if it is not there")
	fl.StringVar(&f.notes, "notes", "", "YAML `FILE` of a claim's name: what there is to say about it, such as why it does not hold")
	fl.IntVar(&f.options.Resamples, "resamples", 2000, "bootstrap `draws` of an interval")
	fl.Uint64Var(&f.options.Seed, "seed", 0, "of the bootstrap")
	return cmd
}

func (f *evalReportFlags) run(out io.Writer, paths []string) error {
	rows, err := readResults(paths)
	if err != nil {
		return err
	}
	if err := f.readNotes(); err != nil {
		return err
	}
	r, err := report.New(rows, f.options)
	if err != nil {
		return err
	}
	if _, err := r.Write(f.out); err != nil {
		return err
	}
	if err := r.WriteText(out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n%s, %s/*.svg and *.png, %s\n", filepath.Join(f.out, report.PageName), filepath.Join(f.out, report.FiguresName),
		filepath.Join(f.out, report.EstimatesName))
	return err
}

func (f *evalReportFlags) readNotes() error {
	if f.notes == "" {
		return nil
	}
	content, err := os.ReadFile(f.notes)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(content, &f.options.Notes); err != nil {
		return fmt.Errorf("%s: want lines of NAME: TEXT: %w", f.notes, err)
	}
	return nil
}

func readResults(paths []string) ([]eval.Row, error) {
	var all []eval.Row
	for _, path := range paths {
		rows, err := readRows(path)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

func readRows(path string) ([]eval.Row, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	rows, err := eval.ReadRows(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}
