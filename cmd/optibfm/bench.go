package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// benchOptions are the flags of `optibfm bench`.
type benchOptions struct {
	config        string
	set           []string
	bundle        string // "": the configuration's
	candidates    int    // 0: the configuration's
	gradientSteps int    // 0: the configuration's
	periodMS      float64
	tensorflow    string // folder of the library
	device        string // "": the configuration's
	span          time.Duration
	count         int
	json          bool
}

func newBenchCommand() *cobra.Command {
	o := benchOptions{config: "rover", span: 500 * time.Millisecond}
	cmd := &cobra.Command{
		Use: "bench", Args: cobra.NoArgs,
		Short: "Time everything that a robot computes on this machine, beside the machine's limits",
		Long: `Time everything that a robot computes on this machine, beside the machine's
limits: the belief, the networks, a whole control tick, the search on every
backend, and the step as the OpTI-BFM paper's table has it. The sizes are those
of a model, the strategies those of a configuration.

All rows take turns, so that whatever else happens on the machine meets all of
them alike. Each call is timed by itself. Run it on an idle machine, and compare
ratios within a run rather than figures of different days.`,
		Example: `  optibfm bench                                  the built-in rover
  optibfm bench --config myrobot.yaml            what this robot would compute
  optibfm bench --bundle models/cheetah --period-ms 10 --candidates 256
  optibfm bench --tensorflow ~/tf --device /CPU:0`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "c", o.config, "a configuration, by name or file: its model, strategy, candidates and period")
	addSetFlag(cmd, &o.set)
	f.StringVar(&o.bundle, "bundle", "", "another model: embedded:rover, or the folder of a bundle")
	f.IntVar(&o.candidates, "candidates", 0, "candidates of a search")
	f.IntVar(&o.gradientSteps, "gradient-steps", 0, "steps of ucb_gradient; the paper has 2 to 16")
	f.Float64Var(&o.periodMS, "period-ms", 0, "time from one tick to the next")
	f.StringVar(&o.tensorflow, "tensorflow", "", "the folder of the TensorFlow library: search with it too")
	f.StringVar(&o.device, "device", "", "of TensorFlow, such as /GPU:0 or /CPU:0")
	f.DurationVar(&o.span, "span", o.span, "how long each row is repeated in all")
	f.IntVar(&o.count, "count", 0, "how often each row is repeated, instead of --span")
	f.BoolVar(&o.json, "json", false, "print JSON, times in nanoseconds")
	cmd.MarkFlagsMutuallyExclusive("span", "count")
	return cmd
}

func (o benchOptions) run(out io.Writer) error {
	b, err := newBenchmark(o)
	if err != nil {
		return err
	}
	defer b.close()
	if !o.json {
		b.printHead(out)
	}
	if err := measure(b.rows(), o.pace()); err != nil {
		return err
	}
	report := b.report()
	if o.json {
		return report.writeJSON(out)
	}
	return report.print(out)
}

func (o benchOptions) check() error {
	switch {
	case o.candidates < 0 || o.candidates > 1<<16:
		return fmt.Errorf("bench: --candidates is out of range (%d): give 1 to %d", o.candidates, 1<<16)
	case o.gradientSteps < 0 || o.gradientSteps > 1000:
		return fmt.Errorf("bench: --gradient-steps is out of range (%d): give 1 to 1000", o.gradientSteps)
	case o.periodMS < 0 || o.periodMS > 60_000 || o.periodMS != o.periodMS:
		return fmt.Errorf("bench: --period-ms is out of range (%g): give a number above 0 and at most 60000", o.periodMS)
	case o.span <= 0 || o.span > time.Hour:
		return fmt.Errorf("bench: --span is out of range (%v): give a time above 0 and at most 1h", o.span)
	case o.count < 0 || o.count > 1e9:
		return fmt.Errorf("bench: --count is out of range (%d): give 1 to 1000000000", o.count)
	}
	return nil
}

// file is the configuration with what the flags change.
func (o benchOptions) file() (configs.File, error) {
	if err := o.check(); err != nil {
		return configs.File{}, err
	}
	file, err := configs.Load(o.config, o.set...)
	if err != nil {
		return file, err
	}
	if o.bundle != "" {
		file.Model.Bundle = o.bundle
	}
	if o.candidates > 0 {
		file.Controller.Candidates = o.candidates
	}
	if o.gradientSteps > 0 {
		file.Controller.Gradient.Steps = o.gradientSteps
	}
	if o.periodMS > 0 {
		file.Loop.PeriodMS = o.periodMS
	}
	if o.tensorflow != "" {
		file.Model.TensorFlow.Library = o.tensorflow
	}
	if o.device != "" {
		file.Model.TensorFlow.Device = o.device
	}
	return file, file.Model.TensorFlow.Validate()
}

// benchmark is one run of `optibfm bench`: what is measured, section by section.
type benchmark struct {
	options benchOptions
	file    configs.File
	model   networks
	cases   *benchCases
	tf      tflite.Model // nil where it is not to be had
	tfNote  string       // what it is, or why there is none

	control controlSection
	search  searchSection
	steps   stepSection
	roof    roofSection
	period  periodSection

	opened []tflite.Model
}

func newBenchmark(o benchOptions) (*benchmark, error) {
	file, err := o.file()
	if err != nil {
		return nil, err
	}
	b := &benchmark{options: o, file: file}
	if b.model, err = openModel(file.Model); err != nil {
		return nil, err
	}
	if err := b.open(); err != nil {
		b.close()
		return nil, fmt.Errorf("bench: %w", err)
	}
	return b, nil
}

// open prepares all sections.
func (b *benchmark) open() (err error) {
	if b.cases, err = newBenchCases(b); err != nil {
		return err
	}
	b.openTensorFlow()
	return errors.Join(b.openControl(), b.openSearch(), b.openSteps(), b.openPeriod(), b.openRoof())
}

func (b *benchmark) close() {
	for _, m := range b.opened {
		if n, ok := m.(*tflite.Network); ok {
			n.Close()
		}
	}
	_ = closeModels(b.opened...) // the process ends
}

// native is the bundle that this program evaluates itself, nil for a SavedModel.
func (b *benchmark) native() *tflite.Bundle {
	if m, ok := b.model.(nativeModel); ok {
		return m.Bundle
	}
	return nil
}

// network makes an evaluator that is closed with the benchmark. A native one may
// use so many processors; of a SavedModel there is one, the control thread's.
func (b *benchmark) network(processors int) (m tflite.Model, err error) {
	if native := b.native(); native != nil {
		m, err = native.NewNetwork(tflite.Workers(processors))
	} else if len(b.opened) > 0 {
		return b.opened[0], nil
	} else {
		m, err = b.model.evaluator(b.file)
	}
	if err == nil {
		b.opened = append(b.opened, m)
	}
	return m, err
}

// searched is how many candidates the searches have, whatever the strategy.
func (b *benchmark) searched() int {
	c := b.file.Controller
	if c.Strategy != controller.UCBSphere {
		c.Strategy = controller.UCB
	}
	return c.Searched()
}

// openTensorFlow opens TensorFlow where somebody, or a SavedModel, asks for it.
func (b *benchmark) openTensorFlow() {
	native := b.native()
	asked := b.options.tensorflow != "" || b.options.device != "" || b.file.Model.Backend == configs.BackendTensorFlow
	if native != nil && !asked {
		b.tfNote = "TensorFlow was not asked for: --tensorflow DIR, --device, or model.backend."
		return
	}
	m, err := b.newTensorFlow(native)
	if err != nil {
		b.tfNote = fmt.Sprintf("TensorFlow takes no part: %v.", err)
		return
	}
	b.tf, b.opened = m, append(b.opened, m)
	r := m.Report()
	b.tfNote = fmt.Sprintf("TensorFlow is %s on %s, %s.", r.Version, r.Device, r.Library)
}

// newTensorFlow makes what a run would make, with the gradient where the strategy
// climbs.
func (b *benchmark) newTensorFlow(native *tflite.Bundle) (tensorflow.Model, error) {
	c := b.file.Model.TensorFlow
	switch {
	case native == nil:
		return tensorflow.LoadSavedModel(*b.model.(savedModel).SavedModel, c, b.searched())
	case b.file.Controller.Strategy == controller.UCBGradient:
		return tensorflow.NewDifferentiable(native, c, b.searched())
	}
	return tensorflow.New(native, c, b.searched())
}

// rows are all that is timed, in the order in which they take turns.
func (b *benchmark) rows() []*timed {
	var rows []*timed
	for _, section := range [][]*timed{b.control.rows, b.search.rows, b.steps.rows, b.period.rows, b.roof.rows} {
		rows = append(rows, section...)
	}
	return rows
}
