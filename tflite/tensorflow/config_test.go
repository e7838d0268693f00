package tensorflow_test

import (
	"errors"
	"strings"
	"testing"

	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
	"optibfm/tflite/tflitetest"
)

var small = tflite.Dims{Obs: 9, Action: 2, Latent: 24, Ensemble: 2}

func TestADefaultConfigurationIsValid(t *testing.T) {
	if err := tensorflow.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestAConfigurationThatCannotBeNamesItsKeys(t *testing.T) {
	c := tensorflow.Config{Device: "cuda:0", IntraOpThreads: -1, InterOpThreads: -2}
	err := c.Validate()
	if err == nil {
		t.Fatal("it is taken")
	}
	for _, key := range []string{"device", "intra_op_threads", "inter_op_threads"} {
		if !strings.Contains(err.Error(), "tensorflow: "+key) {
			t.Errorf("%v: %s is not named", err, key)
		}
	}
	if _, newErr := tensorflow.New(tflitetest.Bundle(small, 1), c, 1); newErr == nil || newErr.Error() != err.Error() {
		t.Errorf("New says %v, Validate %v", newErr, err)
	}
}

func TestAProgramBuiltWithoutTensorFlowSaysHowToBuildIt(t *testing.T) {
	if tensorflow.Built {
		t.Skip("this test was built with TensorFlow")
	}
	if _, err := tensorflow.New(tflitetest.Bundle(small, 1), tensorflow.DefaultConfig(), 1); !errors.Is(err, tensorflow.ErrNotBuilt) {
		t.Errorf("%v, want ErrNotBuilt", err)
	}
}
