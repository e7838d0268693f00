// Package onnx writes the networks of a bundle as ONNX graphs, and reads graphs of a policy and of features as
// a bundle.
//
// Export writes one model for each network, in float32 and of opset 17 (IR version 8), for any number n of
// rows. The numbers are those of package tflite up to rounding.
//
//	phi.onnx        obs [n, O]                             -> phi [n, d]
//	backward.onnx   obs [n, O]                             -> backward [n, d]     B(s)
//	policy.onnx     obs [n, O], z [n, d]                   -> action [n, A]
//	psi.onnx        obs [n, O], action [n, A], z [n, d]    -> psi [E, n, d]
//
// z has any positive norm. The graphs normalise observations and z as the bundle says.
package onnx
