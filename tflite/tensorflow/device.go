//go:build tensorflow

package tensorflow

import (
	"fmt"
	"slices"
	"strings"
)

func hasDevice(devices []Device, name string) bool {
	return slices.ContainsFunc(devices, func(d Device) bool { return d.Name == "/device:"+name[1:] })
}

// missingDevice says what there is, and tells a library without GPU from a
// machine without one.
func missingDevice(a *api, r Report) error {
	var names []string
	for _, d := range r.Devices {
		names = append(names, strings.TrimPrefix(d.Name, "/device:"))
	}
	mend := "check the driver (nvidia-smi; on a Jetson tegrastats), the CUDA and cuDNN libraries of this version, and that the user of the host process is in the groups video and render; " +
		"TF_CPP_MIN_LOG_LEVEL=0 tells what TensorFlow missed; /CPU:0 works without a GPU"
	_, gpu, err := a.registered(use{op: "MatMul", types: map[string]dtype{"T": float32Type}})
	switch {
	case strings.HasPrefix(r.Device, "/CPU"):
		mend = "use /CPU:0"
	case err == nil && !gpu:
		mend = "the library " + r.Library + " is built for the CPU only: install one with CUDA (docs/tensorflow.md), or set model.tensorflow.device to /CPU:0"
	}
	return fmt.Errorf("tensorflow: device: %w: %s (TensorFlow %s has %s): %s", ErrNoDevice, r.Device, r.Version, strings.Join(names, ", "), mend)
}
