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
// and so does `optibfm model check`. A row of Search and the same candidate
// given to Act and Psi differ by rounding, because sums are taken in another
// order. The same inputs give the same bits on one machine, not on another
// architecture.
//
// # Kernels
//
// Everything is a product with a weight matrix, and kernel.go has the only two
// ways to make one: gonum's blas32.Gemv for one input and blas32.Gemm for many.
// Measured on two cores of a shared AMD EPYC (Go 1.26, gonum 0.17), 10⁹
// multiply-adds a second, for 128 rows and a layer of 256 by 256 / 1024 by 1024:
//
//	                                             256   1024
//	own loops, 2 by 4 sums in registers          2.0    1.9
//	Gemm, weights [in, out], tiles               4.2    4.5
//	Gemm, weights [out, in], tiles               6.4    7.8
//	Gemm, weights [out, in], one call            4.7    7.2   goroutines, allocates
//	Gemv, weights [out, in], one row             6.0    6.2
//	own loops, one row                           2.1    3.9
//
// Hence [out, in] weights, and tiles that are too small for gonum to start
// goroutines. gonum has assembly on amd64 only: expect less elsewhere.
//
// Search makes what does not depend on the candidate once: the actor's embed_s
// and its part of the trunk, and the observation's part of every first layer.
package tflite
