# An overlay port in a checkout, for the CPU: vcpkg install gsplat-c --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

vcpkg_configure_meson(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -Dgpu=disabled -Dtools=disabled -Dtests=disabled -Dexamples=disabled)
vcpkg_install_meson()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/gsplat_c)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
    "${CURRENT_PACKAGES_DIR}/share/licenses")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
