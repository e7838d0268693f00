// Package setup opens the parts of a run from a configuration: model, robot, belief and log.
//
// [OpenSession] opens the model and checks the configuration against it, before any device is
// opened. The [Session] then creates the parts:
//
//   - [OpenRobot] opens the driver, halted, and compares its channels with those of the model.
//     [OpenDevices] opens the devices of a composite robot on the buses of a [Hardware]. Tests
//     replace these by fakes. [CloseRobot] halts a robot and releases it.
//   - [Model] is a bundle that this program evaluates ([NativeModel]) or one that TensorFlow
//     evaluates ([SavedModel]).
//   - [Session.Recall] reads the belief of earlier runs, and the saved tasks that are hypotheses.
//     [RestoreBelief] gives the controller that belief, that of the saved task run.start_task
//     ([LoadStart]), or the labels of model.warm_start. [LoadVetted] loads the tasks that limit
//     exploration.
//   - [Session.CreateLog] creates the log, after [MakeRoom] has removed marked old ones.
//
// [CheckArming], [CheckBounds] and [CheckChannels] compare a configuration with a robot and its
// model before anything is armed. With loop.posture: strict their findings are errors, otherwise
// warnings.
//
// Packages control, host, lockstep and doctor call this package. It runs no loop and starts no
// process.
package setup
