package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/posterior"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// newModelSteps answers the requests of lab/bench/bench_peers.py.
func newModelSteps() *cobra.Command {
	backend, candidates, config := configs.BackendNative, 128, tensorflow.DefaultConfig()
	cmd := &cobra.Command{
		Use: "steps BUNDLE", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "Time steps on command, for lab/bench/bench_peers.py",
		Long: `Reads lines of a step and a count from standard input, makes so many steps, and
answers each line with the nanoseconds of every step as a JSON array. Steps:

  policy    π(s, z)
  tick      φ, one label into the belief, D-gap, π: a control tick
  thompson  φ, one label into the belief, a z drawn from it, π
  search    the search of ucb alone, among its last candidates
  ucb       φ, one label into the belief, candidates drawn, searched, π of the best

Every hundredth step begins with a belief that knows nothing: the more it knows,
the more alike are the candidates, and the less there is to evaluate. The native
search uses GOMAXPROCS processors.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := tflite.LoadDir(args[0])
			if err != nil {
				return err
			}
			s, err := newStepper(b, candidates)
			if err != nil {
				return err
			}
			if backend == configs.BackendTensorFlow {
				m, err := tensorflow.New(b, config, candidates)
				if err != nil {
					return err
				}
				defer m.Close()
				s.searcher = m
			}
			return s.serve(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&backend, "backend", backend, "of the search: native or tensorflow")
	f.IntVar(&candidates, "candidates", candidates, "candidates of a search")
	f.StringVar(&config.Device, "device", "/CPU:0", "of TensorFlow")
	f.StringVar(&config.Library, "library", "", "of TensorFlow")
	f.IntVar(&config.IntraOpThreads, "threads", 0, "of TensorFlow; 0: all cores")
	return cmd
}

// stepper makes the paper's steps without a robot.
type stepper struct {
	network    *tflite.Network
	searcher   tflite.Model
	belief     *posterior.Belief
	rng        *rand.Rand
	states     [][]float32 // observations in turn
	count      int
	phi, z     []float64
	wide       []float64 // [n, d] candidates
	candidates []float32
	invR       []float64
	ucb        tflite.Belief
	action     []float32
}

func newStepper(b *tflite.Bundle, n int) (*stepper, error) {
	network, err := b.NewNetwork(tflite.Workers(runtime.GOMAXPROCS(0)))
	if err != nil {
		return nil, err
	}
	d := b.Dims()
	belief, err := posterior.New(d.Latent, 1, 1)
	if err != nil {
		return nil, err
	}
	s := &stepper{
		network: network, searcher: network, belief: belief, rng: rand.New(rand.NewPCG(1, 2)),
		phi: make([]float64, d.Latent), z: make([]float64, d.Latent), action: make([]float32, d.Action),
		wide: make([]float64, n*d.Latent), candidates: make([]float32, n*d.Latent), invR: make([]float64, d.Latent*d.Latent),
		ucb: tflite.Belief{Mean: make([]float32, d.Latent), InvR: make([]float32, d.Latent*d.Latent), Beta: 1},
	}
	for range 64 {
		obs := make([]float32, d.Obs)
		for i := range obs {
			obs[i] = float32(s.rng.NormFloat64())
		}
		s.states = append(s.states, obs)
	}
	belief.SampleGaussian(s.z, s.rng)
	return s, nil
}

// serve answers lines until the input ends.
func (s *stepper) serve(in io.Reader, out io.Writer) error {
	steps := map[string]func(obs []float32) error{"policy": s.policy, "tick": s.tick, "thompson": s.thompson, "search": s.search, "ucb": s.optimism}
	answers := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var name string
		var count int
		if _, err := fmt.Sscan(lines.Text(), &name, &count); err != nil || steps[name] == nil || count < 1 {
			return fmt.Errorf("model steps: no request (%q): write a step and a count, such as %q", strings.TrimSpace(lines.Text()), "ucb 10")
		}
		times := make([]int64, 0, count)
		for range count {
			start := time.Now()
			if err := steps[name](s.states[s.count%len(s.states)]); err != nil {
				return err
			}
			times = append(times, time.Since(start).Nanoseconds())
			s.count++
		}
		if err := answers.Encode(times); err != nil {
			return err
		}
	}
	return nil
}

func (s *stepper) policy(obs []float32) error { return s.network.Act(s.action, obs, s.z) }

// learn gives the belief the label of an observation.
func (s *stepper) learn(obs []float32) error {
	const most = 100 // labels
	if s.count%most == 0 {
		s.belief.Reset()
	}
	if err := s.network.Phi(s.phi, obs); err != nil {
		return err
	}
	return s.belief.Update(s.phi, 0.5, 1)
}

func (s *stepper) tick(obs []float32) error {
	if err := s.learn(obs); err != nil {
		return err
	}
	s.belief.NormSq(s.phi)
	return s.policy(obs)
}

func (s *stepper) thompson(obs []float32) error {
	if err := s.learn(obs); err != nil {
		return err
	}
	s.belief.SampleGaussian(s.z, s.rng)
	return s.policy(obs)
}

func (s *stepper) optimism(obs []float32) error {
	if err := s.learn(obs); err != nil {
		return err
	}
	d := len(s.z)
	for z := range slices.Chunk(s.wide, d) {
		s.belief.SampleEllipsoid(z, 2*float64(s.ucb.Beta), s.rng)
	}
	narrow(s.candidates, s.wide)
	s.belief.Mean(s.z)
	narrow(s.ucb.Mean, s.z)
	s.belief.InvR(s.invR)
	narrow(s.ucb.InvR, s.invR)
	best, _, err := s.searcher.Search(obs, s.candidates, s.ucb)
	if err != nil {
		return err
	}
	copy(s.z, s.wide[best*d:(best+1)*d])
	return s.policy(obs)
}

// search is the search of ucb alone, among the candidates of its last step.
func (s *stepper) search(obs []float32) error {
	if s.ucb.InvR[0] == 0 { // nothing drawn yet
		return s.optimism(obs)
	}
	_, _, err := s.searcher.Search(obs, s.candidates, s.ucb)
	return err
}

func narrow(dst []float32, src []float64) {
	for i, x := range src {
		dst[i] = float32(x)
	}
}
