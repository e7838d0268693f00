// Package authority is the certificate authority of a robot. A phone that trusts its root
// certificate trusts the console at every name and address that the robot gets later.
//
// An authority has two certificates. A phone trusts the root, whose key signs the issuer and
// is then forgotten. The issuer signs the certificates of the console. Both have the same critical
// name constraints: the names of the robot, and private, link-local and loopback addresses. A
// stolen issuer's key can therefore imitate the robot, and no site of the internet, to a phone that
// trusts the root.
//
// The file has both certificates and the issuer's key in PEM, mode 0600. It is made once; each
// write is atomic. Two runs that start together get the same authority.
package authority
