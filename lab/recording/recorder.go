package recording

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/collect"
	"optibfm/internal/npz"
	"optibfm/tflite"
)

// policy is a model whose actions explore. It has one feature, which is constant.
type policy struct {
	explorer  *collect.Explorer
	dims      tflite.Dims
	failsafe  []float64 // in [-1, 1]
	amplitude float64
}

func newPolicy(spec hal.Spec, amplitude float64, rng *rand.Rand) *policy {
	p := &policy{
		explorer:  collect.NewExplorer(spec.Action, rng),
		dims:      tflite.Dims{Obs: len(spec.Obs), Action: len(spec.Action), Latent: 1, Ensemble: 1},
		amplitude: amplitude,
	}
	for _, channel := range spec.Action {
		p.failsafe = append(p.failsafe, collect.Failsafe(channel))
	}
	return p
}

func (p *policy) Dims() tflite.Dims { return p.dims }

func (p *policy) Phi(dst []float64, _ []float32) error {
	dst[0] = 1
	return nil
}

// Act draws an action at most amplitude times the range away from the failsafe output.
func (p *policy) Act(dst, _ []float32, _ []float64) error {
	for i, u := range p.explorer.Next() {
		dst[i] = float32(p.failsafe[i] + p.amplitude*(u-p.failsafe[i]))
	}
	return nil
}

func (p *policy) Search([]float32, []float32, tflite.Belief) (int, float32, error) { return 0, 0, nil }

// recorder makes transitions of ticks. It allocates nothing after newRecorder.
type recorder struct {
	spec     hal.Spec
	realTime bool
	rows     *collect.Transitions
	count    atomic.Int64 // of rows, for other goroutines
	reward   []float32    // of the next observations; NaN: none
	skipped  int64        // transitions that a fault, a missed tick or an irregular sample interrupted

	open   bool // the tick before acted on a valid observation
	broken bool // the next transition does not follow the last one
	obs    []float32
	action []float32 // in [-1, 1]
	at     int64

	episode int64
}

func newRecorder(spec hal.Spec, transitions int, realTime bool) *recorder {
	o, a := len(spec.Obs), len(spec.Action)
	return &recorder{
		spec: spec, realTime: realTime, obs: make([]float32, o), action: make([]float32, a),
		reward: make([]float32, 0, transitions),
		rows:   collect.NewTransitions(spec, transitions),
	}
}

// full reports whether the recording has its last transition.
func (r *recorder) full() bool { return r.rows.Len() == cap(r.rows.Episode) }

// note adds the transition from the tick before to t.
func (r *recorder) note(t *controller.Tick) {
	usable := !t.Flags.Has(controller.FlagBadObs)
	switch {
	case !r.open || r.full():
	case usable && t.Elapsed == 1 && r.regular(t.SenseAt):
		if r.broken && r.rows.Len() > 0 {
			r.episode++
		}
		r.broken = false
		r.rows.Obs = append(r.rows.Obs, r.obs...)
		r.rows.Action = append(r.rows.Action, r.action...)
		r.rows.NextObs = append(r.rows.NextObs, t.Obs...)
		r.rows.Episode = append(r.rows.Episode, r.episode)
		r.reward = append(r.reward, rewardOf(t))
		r.count.Add(1)
	default:
		r.skipped++
		r.broken = true
	}
	r.open = usable && t.Flags.Has(controller.FlagArmed) && t.Flags&(controller.FlagEpisodeEnd|controller.FlagStopped) == 0
	r.broken = r.broken || !r.open
	r.at = t.SenseAt
	copy(r.obs, t.Obs)
	for i, c := range r.spec.Action {
		r.action[i] = float32(min(max(2*(float64(t.Action[i])-c.Min)/(c.Max-c.Min)-1, -1), 1))
	}
}

// rewardOf returns the reward of a tick, NaN for none.
func rewardOf(t *controller.Tick) float32 {
	if t.Flags.Has(controller.FlagReward) {
		return float32(t.Reward)
	}
	return float32(math.NaN())
}

// writeStates writes the observations that have a reward as labelled states: obs [n, O] and
// reward_TASK [n].
func (r *recorder) writeStates(path, task string) error {
	o := len(r.spec.Obs)
	var obs, reward []float32
	for i, value := range r.reward {
		if value == value {
			obs, reward = append(obs, r.rows.NextObs[i*o:(i+1)*o]...), append(reward, value)
		}
	}
	n := len(reward)
	return npz.WriteFile(path, npz.Archive{"obs": npz.Float32(obs, n, o), "reward_" + task: npz.Float32(reward, n)})
}

// regular reports whether a sample is about a period younger than the last one.
func (r *recorder) regular(at int64) bool {
	age, period := at-r.at, int64(r.spec.Period)
	return !r.realTime || 2*age > period && 2*age < 3*period
}

type channel struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
}

func channels(from []hal.Channel) (to []channel) {
	for _, c := range from {
		to = append(to, channel{c.Name, c.Unit})
	}
	return to
}

// write writes the file of scripts/train_fb.py. Its array "robot" has the bytes of a JSON text.
func (r *recorder) write(path string) error {
	text, err := json.Marshal(map[string]any{
		"name": r.spec.Name, "observation": channels(r.spec.Obs), "action": channels(r.spec.Action),
	})
	if err != nil {
		return err
	}
	bytes := make([]int64, len(text))
	for i, b := range text {
		bytes[i] = int64(b)
	}
	n := r.rows.Len()
	return npz.WriteFile(path, npz.Archive{
		"obs":      npz.Float32(r.rows.Obs, n, len(r.spec.Obs)),
		"action":   npz.Float32(r.rows.Action, n, len(r.spec.Action)),
		"next_obs": npz.Float32(r.rows.NextObs, n, len(r.spec.Obs)),
		"episode":  npz.Int64(r.rows.Episode, n),
		"robot":    npz.Int64(bytes, len(bytes)),
	})
}
