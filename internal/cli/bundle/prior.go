package bundle

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"optibfm/internal/registry"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
	"optibfm/internal/taskprior"
	"optibfm/tflite"
)

// PriorOptions describe the prior that AddPrior estimates.
type PriorOptions struct {
	Observations string // .npz file with obs [n, O]: recorded observations, or labelled states
	Out          string // folder of the changed copy, new or empty; "" for the bundle itself
	Library      string // SavedModel only: folder of TensorFlow's library; "" for the install script's
	taskprior.Options
}

// DefaultPriorOptions returns 4,000 rewards and seed 1.
func DefaultPriorOptions() PriorOptions { return PriorOptions{Options: taskprior.DefaultOptions()} }

// AddPrior estimates the task prior of a bundle, adds it or replaces the former one, and prints it.
func AddPrior(out io.Writer, dir string, o PriorOptions) error {
	if _, embedded := registry.Model(dir); embedded {
		return fmt.Errorf("model prior: %s is part of the program; use the folder of a bundle", dir)
	}
	m, err := setup.OpenModel(dir)
	if err != nil {
		return err
	}
	obs, err := readObservations(o.Observations, m)
	if err != nil {
		return fmt.Errorf("model prior: %w", err)
	}
	if native, ok := m.(setup.NativeModel); ok {
		for _, text := range native.CheckScale(obs) {
			fmt.Fprintf(out, "warning: %s: %s\n", o.Observations, text)
		}
	}
	p, took, err := estimatePrior(m, obs, o)
	if err != nil {
		return fmt.Errorf("model prior: %s: %w", o.Observations, err)
	}
	if err := tflite.SavePrior(dir, o.Out, *p); err != nil {
		return fmt.Errorf("model prior: %w", err)
	}
	written := dir
	if o.Out != "" {
		written = o.Out
	}
	_, err = fmt.Fprintf(out, "%s: task prior in %.0f s; %s\n", written, took.Seconds(), calibration(p))
	return err
}

func estimatePrior(m setup.Model, obs []float32, o PriorOptions) (p *tflite.Prior, took time.Duration, err error) {
	file, err := withLibrary(o.Library)
	if err != nil {
		return nil, 0, err
	}
	n, err := m.Evaluator(file)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, setup.CloseModels(n)) }()
	start := time.Now()
	o.Groups = groupsOf(m)
	p, err = taskprior.Estimate(n, obs, o.Options)
	return p, time.Since(start), err
}

// groupsOf returns the name of the group of each channel: that of the bundle's observation groups, or
// else the channel's name up to the first dot, such as imu of imu.0.
func groupsOf(m setup.Model) (names []string) {
	for _, g := range setup.Groups(m) {
		names = append(names, slices.Repeat([]string{g.Name}, g.Size)...)
	}
	if names != nil {
		return names
	}
	observation, _ := m.Channels()
	for _, c := range observation {
		group, _, _ := strings.Cut(c.Name, ".")
		names = append(names, group)
	}
	return names
}

// calibration describes how well a prior fits rewards that it has not seen.
func calibration(p *tflite.Prior) string {
	return fmt.Sprintf("u²/d of rewards left out: p50 %.2f, p90 %.2f (isotropic share %g, width %.2f)",
		p.P50, p.P90, p.Isotropic, p.Width)
}

// prior adds the task prior of a bundle, or the command that adds one.
func (t table) prior(p *tflite.Prior, name string) {
	if p == nil {
		t.row("task prior", "missing; add it with %s",
			shell.ThisProgram().Command("model", "prior", shell.Operand(name), "--observations", "obs.npz"))
		return
	}
	t.row("task prior", "%d random rewards on %d observations, seed %d", p.Rewards, p.States, p.Seed)
	t.row("prior's rewards", "%s", p.Family)
	t.row("prior's fit", "%s", calibration(p))
}
