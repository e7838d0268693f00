package tensorflow_test

import (
	"errors"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
	"optibfm/tflite/tflitetest"
)

var small = tflite.Dims{Obs: 9, Action: 2, Latent: 24, Ensemble: 2}

func TestConfig_DefaultIsValid(t *testing.T) {
	errtest.Nil(t, tensorflow.DefaultConfig().Validate())
}

func TestConfig_ValidateNamesInvalidKeys(t *testing.T) {
	c := tensorflow.Config{Device: "cuda:0", IntraOpThreads: -1, InterOpThreads: -2}
	err := c.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, key := range []string{"device", "intra_op_threads", "inter_op_threads"} {
		if !strings.Contains(err.Error(), "tensorflow: "+key) {
			t.Errorf("%v: want the key %s", err, key)
		}
	}
	if _, newErr := tensorflow.New(tflitetest.Bundle(small, 1), c, 1); newErr == nil || newErr.Error() != err.Error() {
		t.Errorf("New: %v, want Validate's %v", newErr, err)
	}
}

func TestNew_WithoutBuildTagIsErrNotBuilt(t *testing.T) {
	if tensorflow.Built {
		t.Skip("built with the tag tensorflow")
	}
	_, newErr := tensorflow.New(tflitetest.Bundle(small, 1), tensorflow.DefaultConfig(), 1)
	_, loadErr := tensorflow.LoadSavedModel(tflite.SavedModel{}, tensorflow.DefaultConfig(), 1)
	for _, err := range []error{newErr, loadErr} {
		if !errors.Is(err, tensorflow.ErrNotBuilt) {
			t.Fatalf("%v, want ErrNotBuilt", err)
		}
		for _, words := range []string{"-tags tensorflow", "./cmd/optibfm ", "./cmd/optibfm-lab"} {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%v: want %q", err, words)
			}
		}
	}
}
