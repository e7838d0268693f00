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

// missingDevice returns the error for a device that the session does not have. It
// lists the devices that there are, and distinguishes a library without GPU
// kernels from a machine without a GPU.
func missingDevice(a *api, r Report) error {
	var names []string
	for _, d := range r.Devices {
		names = append(names, strings.TrimPrefix(d.Name, "/device:"))
	}
	fix := "check the driver (nvidia-smi; on a Jetson tegrastats), the CUDA and cuDNN libraries of this version, " +
		"and that the user of the host process is in the groups video and render; " +
		"TF_CPP_MIN_LOG_LEVEL=0 prints what TensorFlow did not find; /CPU:0 works without a GPU"
	_, gpu, err := a.registered(opUse{op: "MatMul", types: map[string]dtype{"T": float32Type}})
	switch {
	case strings.HasPrefix(r.Device, "/CPU"):
		fix = "use /CPU:0"
	case err == nil && !gpu:
		fix = "the library " + r.Library + " is built for the CPU only: install one with CUDA " +
			"(docs/tensorflow.md), or set model.tensorflow.device to /CPU:0"
	}
	return fmt.Errorf("tensorflow: device: %w: %s (TensorFlow %s has %s); %s",
		ErrNoDevice, r.Device, r.Version, strings.Join(names, ", "), fix)
}
