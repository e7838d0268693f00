package rigtest

import (
	"errors"
	"sync/atomic"

	"optibfm/tflite"
)

// ErrDeviceLost is what TensorFlow says of a GPU that fell off its bus.
var ErrDeviceLost = errors.New("tensorflow: search: INTERNAL: failed to synchronize the device: CUDA_ERROR_LAUNCH_FAILED")

// Losable is a model whose searches run on a device that can be lost. What the
// control thread evaluates is another one, which has no such device.
type Losable struct {
	tflite.Model
	Lost atomic.Pointer[LostSearch] // nil: it works
}

// LostSearch is a search on what is lost.
type LostSearch func() (best int, score float32, err error)

func (m *Losable) Search(obs, candidates []float32, belief tflite.Belief) (best int, score float32, err error) {
	if lost := m.Lost.Load(); lost != nil {
		return (*lost)()
	}
	return m.Model.Search(obs, candidates, belief)
}

func (m *Losable) Lose(search LostSearch) { m.Lost.Store(&search) }
