package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// backendOptions are the flags of `model backend`.
type backendOptions struct {
	bundle     string
	savedModel string
	config     tensorflow.Config
	candidates int
	searches   int
	operations bool
}

func newModelBackend() *cobra.Command {
	o := backendOptions{bundle: configs.EmbeddedRover, config: tensorflow.DefaultConfig(), candidates: 128, searches: 100}
	cmd := &cobra.Command{
		Use: "backend", Args: cobra.NoArgs,
		Short: "Check that TensorFlow is there, works and agrees with the native networks",
		Long: `Loads TensorFlow as a run with model.backend: tensorflow does, says what it found,
and searches and differentiates with it and natively. Fails where it is missing,
too old, without the device, or of another opinion than the native networks.`,
		Example: `  optibfm model backend                       # the first GPU
  optibfm model backend --device /CPU:0 --operations`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.check(cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.bundle, "bundle", o.bundle, "the model: embedded:rover, or the folder of a bundle")
	f.StringVar(&o.savedModel, "saved-model", "", "time a SavedModel with the signatures phi, policy and psi instead")
	f.StringVar(&o.config.Device, "device", o.config.Device, "where the graph is placed")
	f.StringVar(&o.config.Library, "library", "", "the folder of the library (default: where the install script puts it)")
	f.IntVar(&o.config.IntraOpThreads, "intra-op-threads", o.config.IntraOpThreads, "threads for one operation; 0: all cores")
	f.IntVar(&o.config.InterOpThreads, "inter-op-threads", o.config.InterOpThreads, "operations side by side; 0: all cores, -1: none")
	f.BoolVar(&o.config.TF32, "tf32", false, "let a GPU round the inputs of products")
	f.IntVar(&o.candidates, "candidates", o.candidates, "candidates of a search")
	f.IntVar(&o.searches, "searches", o.searches, "searches, and gradients, that are compared")
	f.BoolVar(&o.operations, "operations", false, "list the operations of the graph and their kernels")
	return cmd
}

func (o backendOptions) check(out io.Writer) error {
	if o.candidates < 1 || o.candidates > 1<<16 || o.searches < 1 {
		return fmt.Errorf("--candidates %d, --searches %d: want 1 to %d and at least 1", o.candidates, o.searches, 1<<16)
	}
	if o.savedModel != "" {
		return o.timeSaved(out, tflite.SavedModel{Dir: o.savedModel, Signatures: tflite.DefaultSignatures()})
	}
	opened, err := openModel(configs.Model{Bundle: o.bundle})
	if err != nil {
		return err
	}
	if saved, ok := opened.(savedModel); ok {
		return o.timeSaved(out, *saved.SavedModel)
	}
	bundle := opened.(nativeModel).Bundle
	network, err := bundle.NewNetwork()
	if err != nil {
		return err
	}
	m, err := tensorflow.NewDifferentiable(bundle, o.config, o.candidates)
	if err != nil {
		return err
	}
	defer m.Close()
	printReport(out, m.Report())
	if err := printKernels(out, m.Report().Kernels, o.operations); err != nil {
		return err
	}
	if err := o.compare(out, bundle.Dims(), contender{"native", network}, contender{"TensorFlow", m}); err != nil {
		return err
	}
	return o.compareGradients(out, bundle.Dims(), network, m)
}

// timeSaved searches with a SavedModel, which has no native search beside it.
func (o backendOptions) timeSaved(out io.Writer, saved tflite.SavedModel) error {
	m, err := tensorflow.LoadSavedModel(saved, o.config, o.candidates)
	if err != nil {
		return err
	}
	defer m.Close()
	printReport(out, m.Report())
	d := m.Dims()
	fmt.Fprintf(out, "sizes       observation %d, action %d, d %d, ensemble %d\n", d.Obs, d.Action, d.Latent, d.Ensemble)
	return o.compare(out, d, contender{"SavedModel", m})
}

func (o backendOptions) compare(out io.Writer, d tflite.Dims, models ...contender) error {
	c := comparison{dims: d, candidates: o.candidates, models: models, times: make([][]time.Duration, len(models)), tolerance: 1e-4}
	if o.config.TF32 {
		c.tolerance = 1e-2
	}
	if err := c.run(o.searches); err != nil {
		return err
	}
	return c.print(out)
}

func printReport(out io.Writer, r tensorflow.Report) {
	fmt.Fprintf(out, "TensorFlow  %s, %s\n", r.Version, r.Library)
	fmt.Fprintf(out, "devices     %s; the graph is on %s\n", deviceList(r.Devices), r.Device)
}

func deviceList(devices []tensorflow.Device) string {
	var words []string
	for _, d := range devices {
		word := strings.TrimPrefix(d.Name, "/device:")
		if d.Type == "GPU" {
			word += fmt.Sprintf(" (%d MiB)", d.Memory>>20)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func printKernels(out io.Writer, kernels []tensorflow.Kernel, all bool) error {
	nodes, cpu, gpu := 0, 0, 0
	for _, k := range kernels {
		nodes += k.Nodes
		if k.CPU {
			cpu++
		}
		if k.GPU {
			gpu++
		}
	}
	fmt.Fprintf(out, "operations  %d of %d kinds; this library has %d for the CPU, %d for the GPU\n", nodes, len(kernels), cpu, gpu)
	if !all {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, k := range kernels {
		fmt.Fprintf(table, "  %s\t%d\tCPU %s\tGPU %s\n", k.Op, k.Nodes, yesNo(k.CPU), yesNo(k.GPU))
	}
	return table.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// contender is a model that searches.
type contender struct {
	name  string
	model tflite.Model
}

// comparison searches with models in turn; the first is the reference.
type comparison struct {
	dims       tflite.Dims
	candidates int
	models     []contender
	tolerance  float64 // relative, of the scores
	times      [][]time.Duration
	others     int     // searches with another index than the reference
	worst      float64 // relative difference of a score from the reference's
}

func (c *comparison) run(searches int) error {
	normal := normals()
	d := c.dims
	belief := tflite.Belief{Mean: normal(d.Latent), InvR: normal(d.Latent * d.Latent), Beta: 1}
	for range searches {
		if err := c.search(normal(d.Obs), normal(c.candidates*d.Latent), belief); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) search(obs, candidates []float32, belief tflite.Belief) error {
	var best int
	var score float32
	for i, m := range c.models {
		start := time.Now()
		index, value, err := m.model.Search(obs, candidates, belief)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		c.times[i] = append(c.times[i], time.Since(start))
		if i == 0 {
			best, score = index, value
			continue
		}
		if index != best {
			c.others++
		}
		c.worst = max(c.worst, math.Abs(float64(value-score))/math.Abs(float64(score)))
	}
	return nil
}

func (c *comparison) print(out io.Writer) error {
	for i, m := range c.models {
		fmt.Fprintf(out, "%-11s a search of %d candidates takes %s\n", m.name, c.candidates, typical(c.times[i]))
	}
	if len(c.models) == 1 {
		return nil
	}
	fmt.Fprintf(out, "agreement   %d searches, %d with another best, scores differ by at most %.1e\n", len(c.times[0]), c.others, c.worst)
	if !(c.worst <= c.tolerance) {
		return fmt.Errorf("model backend: the scores differ by %.1e, want at most %.0e: do not use this library; TF32, if on, allows 1e-2 (--tf32)", c.worst, c.tolerance)
	}
	return nil
}

// compareGradients differentiates with both. What counts is the median: at a kink
// of the score, where a ReLU or the least member is at a tie, both are right and
// differ.
func (o backendOptions) compareGradients(out io.Writer, d tflite.Dims, native, accelerated tflite.Differentiable) error {
	normal, tolerance := normals(), 1e-4
	if o.config.TF32 {
		tolerance = 1e-1 // rounded, many a ReLU is on the other side of its kink
	}
	belief := tflite.Belief{Mean: normal(d.Latent), InvR: normal(d.Latent * d.Latent), Beta: 1}
	want, got := make([]float32, d.Latent), make([]float32, d.Latent)
	var off []float64
	var times []time.Duration
	for range o.searches {
		obs, z := normal(d.Obs), normal(d.Latent)
		if _, err := native.Gradient(want, obs, z, belief); err != nil {
			return fmt.Errorf("native: %w", err)
		}
		start := time.Now()
		if _, err := accelerated.Gradient(got, obs, z, belief); err != nil {
			return fmt.Errorf("TensorFlow: %w", err)
		}
		times = append(times, time.Since(start))
		off = append(off, apart(got, want))
	}
	slices.Sort(off)
	median := off[len(off)/2]
	fmt.Fprintf(out, "gradients   one takes %s; they differ by %.1e of their norm (median; at most %.1e)\n", typical(times), median, off[len(off)-1])
	if !(median <= tolerance) {
		return fmt.Errorf("model backend: the gradients differ by %.1e of their norm, want at most %.0e: do not use this library for ucb_gradient", median, tolerance)
	}
	return nil
}

// apart is ‖x - y‖/‖y‖.
func apart(x, y []float32) float64 {
	difference, size := 0.0, 0.0
	for i, v := range y {
		difference = math.Hypot(difference, float64(x[i])-float64(v))
		size = math.Hypot(size, float64(v))
	}
	return difference / size
}

// normals draws vectors, the same ones in the same order.
func normals() func(n int) []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	return func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
}

func typical(times []time.Duration) string {
	times = slices.Sorted(slices.Values(times))
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms",
		float64(times[len(times)/2].Microseconds())/1000, float64(times[len(times)*99/100].Microseconds())/1000)
}
