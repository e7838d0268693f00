package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/internal/setup"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// backendOptions are the flags of `model backend`.
type backendOptions struct {
	bundle     string
	config     tensorflow.Config
	candidates int
	searches   int
}

func newModelBackend() *cobra.Command {
	o := backendOptions{bundle: configs.EmbeddedRover, config: tensorflow.DefaultConfig(), candidates: 128, searches: 100}
	cmd := &cobra.Command{
		Use: "backend", Args: cobra.NoArgs,
		Short: "Check TensorFlow: its devices, its agreement with the native networks, its time",
		Long: `Load TensorFlow as a run with model.backend: tensorflow does, print its version and
devices, and compare searches with those of the native networks.
The command fails where the library or the device is missing, or where the
results differ.`,
		Example: `  optibfm model backend                       # the first GPU
  optibfm model backend --bundle models/cheetah --device /CPU:0`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.check(cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.bundle, "bundle", o.bundle, "the model: embedded:rover, or the folder of a bundle")
	f.StringVar(&o.config.Device, "device", o.config.Device, "where the graph is placed")
	f.StringVar(&o.config.Library, "library", "", "the folder of the library (default: the install script's)")
	f.IntVar(&o.config.IntraOpThreads, "intra-op-threads", o.config.IntraOpThreads,
		"threads of one operation; 0: all cores")
	f.IntVar(&o.config.InterOpThreads, "inter-op-threads", o.config.InterOpThreads,
		"operations side by side; 0: all cores, -1: none")
	f.BoolVar(&o.config.TF32, "tf32", false, "let a GPU round the inputs of products")
	f.IntVar(&o.candidates, "candidates", o.candidates, "candidates of a search")
	f.IntVar(&o.searches, "searches", o.searches, "number of searches to compare")
	return cmd
}

func (o backendOptions) check(out io.Writer) error {
	if o.candidates < 1 || o.candidates > 1<<16 || o.searches < 1 {
		return fmt.Errorf("model backend: invalid flags (--candidates %d, --searches %d); use 1 to %d and at least 1",
			o.candidates, o.searches, 1<<16)
	}
	opened, err := setup.OpenModel(o.bundle)
	if err != nil {
		return err
	}
	c := comparison{out: out, candidates: o.candidates, searches: o.searches, tf32: o.config.TF32}
	if saved, ok := opened.(setup.SavedModel); ok { // evaluated by TensorFlow alone
		m, err := tensorflow.LoadSavedModel(*saved.SavedModel, o.config, o.candidates)
		if err != nil {
			return err
		}
		printReport(out, m.Report())
		return errors.Join(c.search(m), m.Close())
	}
	bundle := opened.(setup.NativeModel).Bundle
	network, err := bundle.NewNetwork()
	if err != nil {
		return err
	}
	m, err := tensorflow.New(bundle, o.config, o.candidates)
	if err != nil {
		return err
	}
	printReport(out, m.Report())
	return errors.Join(c.search(m, network), m.Close())
}

func printReport(out io.Writer, r tensorflow.Report) {
	var devices []string
	for _, d := range r.Devices {
		name := strings.TrimPrefix(d.Name, "/device:")
		if d.Type == "GPU" {
			name += fmt.Sprintf(" (%d MiB)", d.Memory>>20)
		}
		devices = append(devices, name)
	}
	fmt.Fprintf(out, "TensorFlow  %s, %s\n", r.Version, r.Library)
	fmt.Fprintf(out, "devices     %s; the graph is on %s\n", strings.Join(devices, ", "), r.Device)
}

// comparison compares TensorFlow with the native networks on random cases, and times both.
type comparison struct {
	out                  io.Writer
	candidates, searches int
	tf32                 bool
}

// search times the searches of m, and compares their scores with the native ones, if given.
func (c comparison) search(m tflite.Model, native ...tflite.Model) error {
	normal, d := setup.RandomNormals(), m.Dims()
	belief := tflite.Belief{Mean: normal(d.Latent), InvR: normal(d.Latent * d.Latent), Beta: 1}
	var times, nativeTimes []time.Duration
	worst, others := 0.0, 0
	for range c.searches {
		obs, candidates := normal(d.Obs), normal(c.candidates*d.Latent)
		start := time.Now()
		best, score, err := m.Search(obs, candidates, belief)
		if err != nil {
			return fmt.Errorf("model backend: TensorFlow: %w", err)
		}
		times = append(times, time.Since(start))
		for _, n := range native {
			start := time.Now()
			nativeBest, want, err := n.Search(obs, candidates, belief)
			if err != nil {
				return fmt.Errorf("model backend: native: %w", err)
			}
			nativeTimes = append(nativeTimes, time.Since(start))
			worst = max(worst, math.Abs(float64(score-want)/float64(want)))
			if best != nativeBest {
				others++
			}
		}
	}
	fmt.Fprintf(c.out, "search      %d candidates: %s\n", c.candidates, timesText(times, nativeTimes))
	if len(native) == 0 {
		return nil
	}
	fmt.Fprintf(c.out, "agreement   %d of %d searches have another best; scores differ by at most %.1e\n",
		others, c.searches, worst)
	return c.judge("scores", worst, 1e-2)
}

// judge fails where a relative difference is above 1e-4, or above withTF32 with TF32.
func (c comparison) judge(what string, difference, withTF32 float64) error {
	tolerance := 1e-4
	if c.tf32 {
		tolerance = withTF32
	}
	if difference <= tolerance {
		return nil
	}
	return fmt.Errorf("model backend: the %s of TensorFlow and of the native networks differ "+
		"(%.1e, tolerance %.0e); set model.backend: native, or give --tf32 if TF32 is on", what, difference, tolerance)
}

// timesText is the times of TensorFlow, and the native ones if there are any.
func timesText(times, native []time.Duration) string {
	text := func(name string, times []time.Duration) string {
		slices.Sort(times)
		ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
		return fmt.Sprintf("%s p50 %.3g ms, p99 %.3g ms", name, ms(times[len(times)/2]), ms(times[len(times)*99/100]))
	}
	if len(native) == 0 {
		return text("TensorFlow", times)
	}
	return text("TensorFlow", times) + "; " + text("native", native)
}
