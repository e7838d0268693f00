package eval

import (
	"math"
	"math/rand/v2"

	"optibfm/controller"
	"optibfm/rewardsrc"
	"optibfm/tflite"
)

const (
	adamFirst, adamSecond, adamEpsilon = 0.9, 0.999, 1e-8

	defaultGamma = 0.98 // of a model without a discount
)

// lola implements LoLA (Sikchi et al., "Fast Adaptation with Behavioral Foundation Models", 2025),
// a policy gradient in the space of task embeddings. It draws z from a Gaussian around θ on the
// unit sphere and follows it for a horizon of h steps. The value of z is
//
//	R = Σ γ^k r_k + γ^h min over m of ψ_m(s_h, π_z(s_h), z)ᵀθ
//
// After a replay of n/h horizons, θ moves by one step of Adam along the mean of
// (R - mean R of the others) ∇ log p(z | θ) and is normalised.
//
// lola is the controller.Plans of the agent and a rewardsrc.Source that gives no labels and watches
// the rewards.
type lola struct {
	model   tflite.Evaluator
	robot   *meter // has the last observation
	random  *rand.Rand
	gamma   float64
	rate    float64
	std     float64
	noise   float64
	horizon int
	batch   int // horizons of a replay

	theta, z      []float64 // [d], of norm 1
	first, second []float64 // Adam's means
	updates       int

	step     int       // within the horizon
	ret      float64   // Σ γ^k r_k
	discount float64   // γ^k
	tried    []float64 // [batch, d], z of the completed horizons
	value    []float64 // their R

	reward  float64
	started bool
	episode uint32

	state  *controller.State
	plan   *controller.Plan
	psi    []float32
	action []float32
}

func newLoLA(model tflite.Evaluator, gamma float64, t Trial, robot *meter) *lola {
	d, s := model.Dims(), t.settings
	if gamma == 0 {
		gamma = defaultGamma
	}
	shape := shapeOf(d)
	l := &lola{
		model: model, robot: robot, random: t.random(searchStream), gamma: gamma,
		rate: s.LearningRate[0], std: s.Std[0], noise: s.Noise[0],
		horizon: s.Horizon[0], batch: s.Replay[0] / s.Horizon[0],
		theta: make([]float64, d.Latent), z: make([]float64, d.Latent),
		first: make([]float64, d.Latent), second: make([]float64, d.Latent), discount: 1,
		state: controller.NewState(shape), plan: controller.NewPlan(shape),
		psi: make([]float32, d.Ensemble*d.Latent), action: make([]float32, d.Action),
	}
	for i := range l.theta {
		l.theta[i] = l.random.NormFloat64()
	}
	normalise(l.theta)
	l.draw()
	return l
}

func normalise(x []float64) {
	square := 0.0
	for _, v := range x {
		square += v * v
	}
	scale := 1 / math.Sqrt(square)
	for i := range x {
		x[i] *= scale
	}
}

// draw draws a new z. The plan has it with the norm √d.
func (l *lola) draw() {
	for i, x := range l.theta {
		l.z[i] = x + l.std*l.random.NormFloat64()
	}
	normalise(l.z)
	scale := math.Sqrt(float64(len(l.z)))
	for i, x := range l.z {
		l.plan.Z[i] = scale * x
	}
}

// State returns the buffer that the agent fills.
func (l *lola) State() *controller.State { return l.state }

// Offer learns from the step that led to the state and chooses z.
func (l *lola) Offer() error {
	if l.started && l.state.Episode == l.episode {
		if err := l.learn(); err != nil {
			return err
		}
	}
	l.started, l.episode = true, l.state.Episode
	l.plan.Tick, l.plan.Confirmed = l.state.Tick(), l.state.Tick()
	return nil
}

// Latest returns the current plan.
func (l *lola) Latest() *controller.Plan { return l.plan }

// learn adds the reward of a step.
func (l *lola) learn() error {
	l.ret += l.discount * l.reward
	l.discount *= l.gamma
	if l.step++; l.step < l.horizon {
		return nil
	}
	future, err := l.futureValue()
	if err != nil {
		return err
	}
	l.tried = append(l.tried, l.z...)
	l.value = append(l.value, l.ret+l.discount*future)
	l.step, l.ret, l.discount = 0, 0, 1
	if len(l.value) == l.batch {
		l.update()
		l.tried, l.value = l.tried[:0], l.value[:0]
	}
	l.draw()
	return nil
}

// futureValue estimates the rewards after the horizon if the agent continued with z.
func (l *lola) futureValue() (float64, error) {
	if err := l.model.Act(l.action, l.robot.obs, l.plan.Z); err != nil {
		return 0, err
	}
	if err := l.model.Psi(l.psi, l.robot.obs, l.action, l.plan.Z); err != nil {
		return 0, err
	}
	least := math.Inf(1)
	for d, m := len(l.theta), 0; m < len(l.psi); m += d {
		sum := 0.0
		for i, x := range l.theta {
			sum += float64(l.psi[m+i]) * x
		}
		least = min(least, sum)
	}
	return least, nil
}

// update moves θ by one step of Adam.
func (l *lola) update() {
	n, total := float64(l.batch), 0.0
	for _, r := range l.value {
		total += r
	}
	l.updates++
	correctFirst := 1 - math.Pow(adamFirst, float64(l.updates))
	correctSecond := 1 - math.Pow(adamSecond, float64(l.updates))
	d := len(l.theta)
	for i := range l.theta {
		slope := 0.0
		for b, r := range l.value {
			advantage := (n*r - total) / (n - 1)
			slope += advantage * (l.tried[b*d+i] - l.theta[i]) / (l.std * l.std) / n
		}
		l.first[i] += (1 - adamFirst) * (slope - l.first[i])
		l.second[i] += (1 - adamSecond) * (slope*slope - l.second[i])
		l.theta[i] += l.rate * l.first[i] / correctFirst / (math.Sqrt(l.second[i]/correctSecond) + adamEpsilon)
	}
	normalise(l.theta)
}

// Watch notes the reward of each step.
func (l *lola) Watch(_ uint64, _ int64, reward float64, _ bool) {
	l.reward = reward + l.noise*l.random.NormFloat64()
}

// Ask is never called: the gate is off.
func (l *lola) Ask(rewardsrc.Request) {}

// Poll returns no labels.
func (l *lola) Poll([]rewardsrc.Label) int { return 0 }

// Halt does nothing.
func (l *lola) Halt() error { return nil }
