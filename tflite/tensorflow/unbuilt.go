//go:build !tensorflow

package tensorflow

import (
	"fmt"

	"optibfm/tflite"
)

// Built reports whether this program can load TensorFlow.
const Built = false

// New returns ErrNotBuilt: this program was built without the tag tensorflow.
func New(_ *tflite.Bundle, c Config, _ int) (Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w; or set model.backend to native", ErrNotBuilt)
}

// LoadSavedModel returns ErrNotBuilt: this program was built without the tag tensorflow.
func LoadSavedModel(_ tflite.SavedModel, c Config, _ int) (Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("a SavedModel needs TensorFlow: %w", ErrNotBuilt)
}
