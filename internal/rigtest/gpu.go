package rigtest

import (
	"errors"
	"sync/atomic"

	"optibfm/tflite"
)

// ErrDeviceLost is the error of TensorFlow after a GPU failed.
var ErrDeviceLost = errors.New("tensorflow: search: INTERNAL: failed to synchronize the device: " +
	"CUDA_ERROR_LAUNCH_FAILED")

// FaultyModel is a model whose search a test replaces, as if a GPU failed. The control thread
// evaluates another model.
type FaultyModel struct {
	tflite.Model
	search atomic.Pointer[SearchFunc] // nil: the model's own
}

// SearchFunc is a replaced Search.
type SearchFunc func() (best int, score float32, err error)

// Search implements tflite.Model.
func (m *FaultyModel) Search(obs, candidates []float32, belief tflite.Belief) (best int, score float32, err error) {
	if search := m.search.Load(); search != nil {
		return (*search)()
	}
	return m.Model.Search(obs, candidates, belief)
}

// SetSearch replaces the search; nil restores that of the model.
func (m *FaultyModel) SetSearch(search SearchFunc) {
	if search == nil {
		m.search.Store(nil)
		return
	}
	m.search.Store(&search)
}
