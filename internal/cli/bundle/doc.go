// Package bundle prints, checks, evaluates, compares and imports behaviour foundation
// models, and adds task priors to them.
//
// The subcommands of `optibfm model` call it, one function each:
//
//   - Describe prints the sizes, channels and provenance of a model.
//   - Check compares a model with test vectors of its training framework.
//   - Evaluate returns φ, π and ψ at one observation.
//   - CompareBackend compares another backend with the native networks and times both.
//   - Import makes a bundle of a checkpoint, or of a TensorFlow SavedModel.
//   - AddPrior estimates a task prior (package taskprior) and adds it to a bundle.
//
// Package tflite defines bundles and the native networks, tflite/tensorflow the other
// backend, and internal/setup opens either. A SavedModel needs a program that was built
// with -tags tensorflow.
package bundle
