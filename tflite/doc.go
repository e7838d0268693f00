// Package tflite holds behaviour foundation models: their files, and the
// evaluation of their networks on the CPU.
//
// # The model
//
// A forward-backward model (Touati & Ollivier, "Learning One Representation
// to Optimize All Rewards", 2021) has three networks. B(s) gives the features
// φ(s) = (Cov B)⁻¹ B(s), in which rewards are taken to be linear,
// r(s) ≈ φ(s)ᵀz; π_z(s) is a policy for the reward with weights z; and
// ψ = F(s, a, z) are the successor features: the discounted sum of φ that
// π_z collects from (s, a) on, so that ψᵀz is its return.
//
// # Use
//
// A Bundle is a model in memory, a Network evaluates it. Load reads a bundle
// from any file system, an embedded one for instance; LoadDir reads a bundle
// or a metamotivo checkpoint from a directory; New and Save make bundles. The
// files are described in FORMAT.md. A Bundle may be shared by goroutines; each
// takes a Network of its own, which shares the weights and has its own scratch
// memory. A bundle may also be a TensorFlow SavedModel of any architecture: this
// package reads and verifies it (LoadSavedModel) and probes what it answers
// (Probe); package tensorflow evaluates it.
//
//	bundle, err := tflite.LoadDir("models/walker")
//	network, err := bundle.NewNetwork()
//	err = network.Phi(phi, obs)                       // [d]
//	err = network.Act(action, obs, z)                 // [A]
//	best, score, err := network.Search(obs, zs, belief)
//
// Phi, Act, Psi and Backward allocate nothing, start no goroutine and take
// time that depends on the sizes alone (and on how many units ReLU silences):
// they belong on the control thread. Search and Gradient allocate on their first
// call, and Search where the number of candidates is larger than it has been.
// With the option Workers, Search divides the candidates between goroutines.
//
// # Numbers
//
// The networks run in float32 and Cov B is solved in float64, by its Cholesky
// factor. Against PyTorch the largest relative error of φ, π and ψ is about
// 5e-6 on the reference checkpoints; TestNetworksAgreeWithPyTorch reports it,
// and so does `optibfm model check`. A candidate of Search gets the same bits as
// from Act and Psi, and the same inputs give the same bits in every run, wherever
// they lie in memory and however many workers there are. Another kind of
// processor rounds otherwise: there scores agree to about 1e-6 of their size.
//
// # Search
//
// What does not depend on the candidate is made once: the actor's embed_s and its
// part of the trunk, and the observation's part of every first layer. One member
// of the ensemble bounds every score from above, and the others are asked only
// about candidates whose bound is not below the best score: see Search. On the two
// reference checkpoints, whose ensembles have two members, that saves 45 % and
// more of the members' evaluations (half would be all), before labels and after
// 100 and 1000 (TestTheShortcutSavesWorkOnTrainedModels).
//
// # Kernels
//
// Everything is a product with a weight matrix; internal/kernel makes it, with
// assembly on amd64 (AVX2 and FMA) and arm64 (NEON), and in Go elsewhere and with the
// build tag noasm. Expect the Go loops to be an order of magnitude slower. On arm64
// nothing was timed yet: BenchmarkMultiply and BenchmarkRoof in internal/kernel do it.
//
// Measured on one core of a shared AMD EPYC (Zen 3, no AVX-512), Go 1.26, the
// shortest of many calls, with 24 observations, 6 actions, d = 50 and 128
// candidates; for gonum's blas32, which made the products before, the least mean:
//
//	                        hidden 256            hidden 1024
//	                        gonum    now          gonum     now
//	φ                       32 µs    7 µs         229 µs    62 µs
//	π                       66 µs    8 µs         591 µs    111 µs
//	search, no labels       19 ms    0.8 ms       142 ms    12 ms
//	search, 100 labels               0.7 ms                 9.5 ms
//	one gradient                     55 µs                  1.2 ms
//
// The roof there is 94 to 100 GFLOP/s (a tile whose numbers stay in the first-level
// cache) and 51 GB/s (summing 8 MB). A search at 1024 after 100 labels is 0.87
// GFLOP with the shortcut, of which the silent units leave about 0.7: three
// quarters of the roof. The dense layers run at 85 to 98 % of it, those behind a
// ReLU at about 70 %, counting only what is multiplied. φ reads 4.5 MB of weights,
// 72 GB/s: from the third-level cache, and faster than the sum, whose additions
// wait for each other. π reads about 6.6 MB of its 8.9: 59 GB/s. BenchmarkRoof and BenchmarkMultiply in internal/kernel measure
// both on another machine.
//
// gonum's Go kernels reach 6 to 8 GFLOP/s on the same products. OpenBLAS by cgo was
// not measured: a dense product at the roof could not beat leaving half of it out,
// and it would be one more library to install on a robot.
package tflite
