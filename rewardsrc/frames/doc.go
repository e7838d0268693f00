// Package frames receives pictures of the robot for the people who judge it. The host process uses
// it; pictures never reach the control process.
//
// A [Store] keeps the frames of the last [Kept] from one source:
//
//   - camera: a V4L2 device such as /dev/video0 (MJPEG, or YUYV, which is encoded here),
//   - url: an MJPEG stream or a snapshot over HTTP, from a network camera, ustreamer, ROS 2's
//     web_video_server, or the robot's own server on a Unix socket (unix:/path).
//
// The source is open only while someone watches. A frame has the time at which it was captured,
// CLOCK_MONOTONIC: a server on this computer sends it in the header X-Monotonic-Ns of each part;
// for other sources it is the time of arrival minus Config.DelayMS.
//
// Size, rate and memory are limited. A bad picture is skipped. A source that is slow, dead, floods
// or sends five bad pictures in a row costs frames, and is opened again after a while;
// [Store.Problem] returns the reason.
package frames
