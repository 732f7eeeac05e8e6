# SPDX-License-Identifier: BSD-3-Clause
# nix-build packaging/nix. It has not been built; docs/packages.md says what was tried.
{ pkgs ? import <nixpkgs> { } }:

pkgs.stdenv.mkDerivation {
  pname = "ital";
  version = "0.1.0";
  src = pkgs.lib.cleanSource ../..;

  nativeBuildInputs = with pkgs; [
    autoreconfHook
    pkg-config
    python3
    scdoc
  ];
  buildInputs = with pkgs; [
    inih
    isa-l
    jansson
    libcap_ng
    libmnl
    libseccomp
    libtool
    liburing
    openssl
    rdma-core
    systemd
    uthash
    util-linux
  ];
  configureFlags = [
    "--with-systemdunits=${placeholder "out"}/lib/systemd/system"
    "--with-rdmacore"
    "--with-verbs"
  ];
  enableParallelBuilding = true;

  meta = {
    description = "RDMA layer with software iWARP, for IT-API and for unmodified verbs programs";
    license = pkgs.lib.licenses.bsd3;
    mainProgram = "ital-run";
    platforms = pkgs.lib.platforms.linux;
  };
}
