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
// memory.
//
//	bundle, err := tflite.LoadDir("models/walker")
//	network, err := bundle.NewNetwork()
//	err = network.Phi(phi, obs)                       // [d]
//	err = network.Act(action, obs, z)                 // [A]
//	best, score, err := network.Search(obs, zs, belief)
//
// Phi, Act, Psi and Backward allocate nothing, start no goroutine and take
// time that depends on the sizes alone: they belong on the control thread.
// Search allocates where the number of candidates is larger than it has been.
//
// # Numbers
//
// The networks run in float32 and Cov B is solved in float64, by its Cholesky
// factor. Against PyTorch the largest relative error of φ, π and ψ is about
// 5e-6 on the reference checkpoints; TestNetworksAgreeWithPyTorch reports it,
// and so does `optibfm model check`. A candidate of Search gets the same bits as
// from Act and Psi, and the same inputs give the same bits in every run, wherever
// they lie in memory; another architecture may round otherwise.
//
// # Kernels
//
// Everything is a product with a weight matrix, and kernel.go makes it with
// gonum's blas32.Gemv, for many inputs in tiles of 64 outputs whose weights stay
// in the cache. Measured on two cores of a shared AMD EPYC (Go 1.26, gonum
// 0.17), 10⁹ multiply-adds a second, for a layer of 256 by 256 / 1024 by 1024:
//
//	one row, Gemv, weights [out, in]              6.0   6.2
//	one row, Gemv, weights [in, out]              5.2   8.7
//	one row, own loops                            2.1   3.9
//	128 rows, own loops, 2 by 4 sums at a time    2.0   1.9
//	128 rows, Gemm, [in, out], small tiles        4.2   4.5
//	128 rows, Gemm, [out, in], whole              4.7   7.2   goroutines, allocates
//	128 rows, Gemm, [out, in], small tiles        6.4   7.8
//
// and, in another minute with more neighbours on the machine:
//
//	128 rows, Gemm, [out, in], small tiles        5.5   3.9
//	128 rows, Gemv, [out, in], tiles              6.0   4.8
//
// The last two are equal within the noise; Gemv never starts goroutines and
// gives Search the same bits as Act, hence the choice. gonum has assembly on
// amd64 only: expect less elsewhere.
//
// Search makes what does not depend on the candidate once: the actor's embed_s
// and its part of the trunk, and the observation's part of every first layer.
package tflite
