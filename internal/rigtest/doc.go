// Package rigtest has the fakes and helpers of tests that run large parts of the program.
//
//   - [Rig] is the rover of configs/composite.yaml: an IMU and a PWM chip on a fake I²C bus, with a
//     body that turns as its motors command. [Wagon] adds a board, servos and CAN motors on ptys
//     and sockets.
//   - [NewSession] returns a session with the rover and an untrained model; [RoverBundle],
//     [WagonBundle], [ModelBundle] and [SavedModelBundle] write models to disk.
//   - [Operators] opens one of each kind of label source with a press; [PairPhone] pairs with a
//     console.
//   - [FaultyModel] is a model whose search fails; [Memory] checks that the heap does not grow.
//
// The fakes of single devices are beside their drivers (hal/*/*test).
package rigtest
