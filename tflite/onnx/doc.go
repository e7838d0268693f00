// Package onnx writes the networks of a bundle as ONNX graphs. It also makes a bundle from the
// graphs of a policy and of B.
//
// [Export] writes one model for each network, in float32, with opset 17 (IR version 8), for any
// number n of rows. The results equal those of package tflite up to rounding.
//
//	phi.onnx        obs [n, O]                             -> phi [n, d]
//	backward.onnx   obs [n, O]                             -> backward [n, d]     B(s)
//	policy.onnx     obs [n, O], z [n, d]                   -> action [n, A]
//	psi.onnx        obs [n, O], action [n, A], z [n, d]    -> psi [E, n, d]
//
// z may have any positive norm. The graphs normalise observations and z as the bundle does.
package onnx
