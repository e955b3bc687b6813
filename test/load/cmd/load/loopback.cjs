// Keeps a program that names no address from listening on others than loopback.
const net = require("node:net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  if (typeof port === "number" && typeof rest[0] !== "string") return listen.call(this, port, "127.0.0.1", ...rest);
  return listen.call(this, port, ...rest);
};
