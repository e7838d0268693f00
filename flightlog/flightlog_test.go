package flightlog

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

var testShape = controller.Shape{Obs: 7, Action: 2, Latent: 24}

func testMetadata(s controller.Shape) Metadata {
	return Metadata{
		Program: "test", ModelHash: "abc", Posture: "best effort",
		Robot:   hal.Spec{Name: "testbot", Period: 20 * time.Millisecond},
		Shape:   s,
		Clock:   Clock{MonoNS: 5_000_000_000, WallNS: 1_700_000_000_000_000_000},
		Control: controller.DefaultConfig(),
		Config:  []byte("robot: testbot\n"),
		Extra:   map[string]string{"task": "stand"},
	}
}

// randomTick returns tick number i with deterministic values in every field.
func randomTick(s controller.Shape, i uint64) *controller.Tick {
	rng := rand.New(rand.NewPCG(1, i))
	t := controller.NewTick(s)
	at := 5_000_000_000 + int64(i)*20_000_000
	*t.Header = controller.Header{
		Index: i, Elapsed: min(i, 1),
		Deadline: at, Wake: at + rng.Int64N(1e5), SenseAt: at + 2e5, Done: at + 1e6,
		Episode: uint32(i / 1000), Step: uint32(i % 1000),
		Flags: controller.FlagArmed | controller.FlagReward, Fault: controller.Fault(rng.IntN(3)),
		Reward: rng.NormFloat64(), NormSq: rng.Float64(), DGap: rng.Float64(),
		Kappa: 0.05 + float64(i)/1e6, LogDet: rng.NormFloat64(),
		Request: rng.Uint64N(9), Hash: rng.Uint64(),
		PlanTick: i, PlanConfirmed: i, PlanScore: rng.NormFloat64(),
		NumLabels: i % 3, Reaction: controller.ReactionState{rng.Float64(), rng.Float64()},
	}
	for k := range t.NumLabels {
		t.Labels[k] = controller.AppliedLabel{
			ID: 1 + rng.Uint64N(99), Request: rng.Uint64N(3), From: i, To: i, About: i, Undoes: rng.Uint64N(2),
			Value: rng.NormFloat64(), Weight: rng.Float64(), Kind: rewardsrc.Value, Outcome: controller.Applied,
			At: rng.Int64(), Asked: rng.Uint64(),
		}
	}
	for k := range t.Obs {
		t.Obs[k] = float32(rng.NormFloat64())
	}
	for k := range t.Phi {
		t.Phi[k], t.Z[k] = rng.NormFloat64(), rng.NormFloat64()
	}
	for k := range t.Action {
		t.Action[k] = float32(math.Tanh(rng.NormFloat64()))
	}
	return t
}

func testLabel(id uint64) rewardsrc.Label {
	return rewardsrc.Label{
		ID: id, Tick: rewardsrc.NoTick, At: 5_000_000_000 + int64(id), Value: 0.5, Weight: 1,
		Kind: rewardsrc.Value, Mode: rewardsrc.Mode(id % 2),
	}
}

func create(t testing.TB, meta Metadata, opts Options) (*Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.mcap")
	w, err := Create(path, meta, opts)
	fatal.If(t, err)
	return w, path
}

func open(t testing.TB, path string) *Reader {
	t.Helper()
	r, err := Open(path)
	fatal.If(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}
