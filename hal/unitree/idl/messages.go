package idl

// Number of motors in the messages, and of those that a robot has.
const (
	Go2Motors, Go2Joints = 20, 12
	G1Motors, G1Joints   = 35, 29
)

// RemoteSize is the size of the state of the remote control in a LowState.
const RemoteSize = 40

// Descriptor describes a type to Cyclone DDS: its size in C and how to serialise it.
type Descriptor struct {
	Name              string // the type's name on the wire
	Size, Align       uint32
	Flags, Operations uint32
	Words             []uint32 // the operations
}

// MotorEnabled is the mode of a motor that follows its command.
const MotorEnabled = 1

// Go2MotorCommand is unitree_go::msg::dds_::MotorCmd_: the motor's torque is
// Kp (Q - q) + Kd (Dq - dq) + Tau.
type Go2MotorCommand struct {
	Mode    uint8
	Q, Dq   float32 // rad, rad/s
	Tau     float32 // N·m
	Kp, Kd  float32 // N·m/rad, N·m·s/rad
	Reserve [3]uint32
}

// Go2BatteryCommand is unitree_go::msg::dds_::BmsCmd_.
type Go2BatteryCommand struct {
	Off     uint8
	Reserve [3]uint8
}

// Go2Command is unitree_go::msg::dds_::LowCmd_ (topic rt/lowcmd).
type Go2Command struct {
	Head           [2]uint8
	LevelFlag      uint8
	FrameReserve   uint8
	SN             [2]uint32
	Version        [2]uint32
	Bandwidth      uint16
	Motor          [Go2Motors]Go2MotorCommand
	Battery        Go2BatteryCommand
	WirelessRemote [RemoteSize]uint8
	LED            [12]uint8
	Fan            [2]uint8
	GPIO           uint8
	Reserve        uint32
	CRC            uint32
}

// Go2IMU is unitree_go::msg::dds_::IMUState_.
type Go2IMU struct {
	Quaternion    [4]float32 // w x y z, of the trunk
	Gyroscope     [3]float32 // rad/s
	Accelerometer [3]float32 // m/s²
	RPY           [3]float32 // rad
	Temperature   uint8
}

// Go2Motor is unitree_go::msg::dds_::MotorState_.
type Go2Motor struct {
	Mode        uint8
	Q, Dq, Ddq  float32 // rad, rad/s, rad/s²
	TauEst      float32 // N·m
	QRaw, DqRaw float32
	DdqRaw      float32
	Temperature uint8  // °C, signed in two's complement
	Lost        uint32 // packets that the motor lost
	Reserve     [2]uint32
}

// Go2Battery is unitree_go::msg::dds_::BmsState_.
type Go2Battery struct {
	VersionHigh, VersionLow uint8
	Status                  uint8
	SOC                     uint8 // percent
	Current                 int32 // mA
	Cycle                   uint16
	BQNTC, MCUNTC           [2]uint8
	CellVoltage             [15]uint16
}

// Go2State is unitree_go::msg::dds_::LowState_ (topic rt/lowstate).
type Go2State struct {
	Head                             [2]uint8
	LevelFlag, FrameReserve          uint8
	SN, Version                      [2]uint32
	Bandwidth                        uint16
	IMU                              Go2IMU
	Motor                            [Go2Motors]Go2Motor
	Battery                          Go2Battery
	FootForce, FootForceEst          [4]int16
	Tick                             uint32 // ms
	WirelessRemote                   [RemoteSize]uint8
	BitFlag                          uint8
	ADCReel                          float32
	TemperatureNTC1, TemperatureNTC2 uint8
	PowerV, PowerA                   float32
	FanFrequency                     [4]uint16
	Reserve                          uint32
	CRC                              uint32
}

// G1MotorCommand is unitree_hg::msg::dds_::MotorCmd_; see [Go2MotorCommand].
type G1MotorCommand struct {
	Mode    uint8
	Q, Dq   float32
	Tau     float32
	Kp, Kd  float32
	Reserve uint32
}

// G1Command is unitree_hg::msg::dds_::LowCmd_ (topic rt/lowcmd).
type G1Command struct {
	ModePR      uint8 // 0: pitch and roll of the ankles
	ModeMachine uint8 // that of the state
	Motor       [G1Motors]G1MotorCommand
	Reserve     [4]uint32
	CRC         uint32
}

// G1IMU is unitree_hg::msg::dds_::IMUState_.
type G1IMU struct {
	Quaternion    [4]float32 // w x y z, of the pelvis
	Gyroscope     [3]float32
	Accelerometer [3]float32
	RPY           [3]float32
	Temperature   int16
}

// G1Motor is unitree_hg::msg::dds_::MotorState_.
type G1Motor struct {
	Mode        uint8
	Q, Dq, Ddq  float32
	TauEst      float32
	Temperature [2]int16 // °C: of the case and of the winding
	Voltage     float32
	Sensor      [2]uint32
	State       uint32 // 0: no fault
	Reserve     [4]uint32
}

// G1State is unitree_hg::msg::dds_::LowState_ (topic rt/lowstate).
type G1State struct {
	Version             [2]uint32
	ModePR, ModeMachine uint8
	Tick                uint32 // ms
	IMU                 G1IMU
	Motor               [G1Motors]G1Motor
	WirelessRemote      [RemoteSize]uint8
	Reserve             [4]uint32
	CRC                 uint32
}
