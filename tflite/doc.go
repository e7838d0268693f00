// Package tflite holds behaviour foundation models: their files, and the evaluation of their
// networks on the CPU.
//
// # The model
//
// A forward-backward model (Touati & Ollivier, "Learning One Representation to Optimize All
// Rewards", 2021) has three networks. B(s) gives the features φ(s) = (Cov B)⁻¹ B(s), in which
// rewards are linear, r(s) ≈ φ(s)ᵀz. π_z(s) is a policy for the reward with weights z. ψ = F(s, a,
// z) are the successor features, the discounted sum of φ that π_z collects after (s, a), so ψᵀz is
// its return.
//
// # Use
//
// A Bundle is a model in memory, a Network evaluates it. Load reads a bundle from any file system,
// for example an embedded one; LoadDir reads a bundle or a checkpoint of another project
// (FORMAT.md) from a directory; New and Save make bundles. FORMAT.md describes the files.
// Goroutines may share a Bundle; each needs its own Network, which shares the weights and has its
// own scratch memory. A bundle may also be a TensorFlow SavedModel of any architecture: this
// package reads and verifies it (LoadSavedModel) and checks its results (Probe); package tensorflow
// evaluates it. LoadShared and OpenShared let two processes use one copy of the weights.
//
//	bundle, err := tflite.LoadDir("models/walker")
//	network, err := bundle.NewNetwork()
//	err = network.Phi(phi, obs)                       // [d]
//	err = network.Act(action, obs, z)                 // [A]
//	best, score, err := network.Search(obs, zs, belief)
//
// Phi, Act, Psi and Backward allocate nothing, start no goroutine and take time that
// depends only on the sizes (and on how many units ReLU sets to 0): they are safe on the
// control thread. Search and Gradient allocate on their first call, and Search also where
// the number of candidates grows. With the option Workers, Search divides the products of its
// networks between goroutines.
//
// # Networks
//
// F and the actor are metamotivo's "simple" networks, or "residual" ones: blocks of
// LayerNorm, a linear layer and Mish. Where a block's input has parts that the candidates of
// a search share, its weights contain the LayerNorm's gain (kernel.Folded): the products
// with shared parts are known before the moments of the whole input are. Networks of a model
// with groups read parts of the observation.
//
// # Task prior
//
// Bundle.Prior and SavedModel.Prior are a distribution of the tasks z, N(0, M), and the mean
// feature μ. They are nil for a bundle without a prior. Package taskprior estimates them
// from observations, SavePrior adds them to a bundle; the hash of the weights stays.
//
// # Numbers
//
// The networks run in float32; (Cov B)⁻¹ is applied in float64, by its Cholesky factor.
// TestNetwork_AgreesWithPyTorch and `optibfm model check` report the relative errors of φ,
// π and ψ against PyTorch. A candidate of Search gets the same bits as from Act and Psi,
// and the same inputs give the same bits in every run, at every address and with every
// number of workers. Processors of another kind round differently: scores agree to about
// 1e-6 of their size.
//
// # Search
//
// Search evaluates only once what does not depend on the candidate: the actor's embed_s
// and its part of the trunk, and the observation's part of every first layer. One member
// of the ensemble bounds every score from above; the others evaluate only the candidates
// with a bound above the best score (see Search and TestSearch_SkipsWorkOnTrainedModels).
//
// # Kernels
//
// Nearly all the work is products with weight matrices. internal/kernel computes them, with
// assembly on amd64 (AVX2 and FMA, and AVX-512) and arm64 (NEON), otherwise in Go, which is about
// ten times slower. BenchmarkMultiply, BenchmarkRoof and BenchmarkStream in internal/kernel compare
// the products with the limits of a machine.
package tflite
