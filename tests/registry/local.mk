# Tests of registry.

check_PROGRAMS += tests/registry/test_address_index
TESTS += tests/registry/test_address_index
tests_registry_test_address_index_SOURCES = tests/registry/test_address_index.c
tests_registry_test_address_index_CFLAGS = $(GMV_TEST_CFLAGS)
tests_registry_test_address_index_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_registry_test_address_index_LDADD = libgmv-registry.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/registry/test_delete
TESTS += tests/registry/test_delete
tests_registry_test_delete_SOURCES = tests/registry/test_delete.c tests/registry/toy.h
tests_registry_test_delete_CFLAGS = $(GMV_TEST_CFLAGS)
tests_registry_test_delete_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_registry_test_delete_LDADD = libgmv-registry.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/registry/test_list
TESTS += tests/registry/test_list
tests_registry_test_list_SOURCES = tests/registry/test_list.c tests/registry/toy.h
tests_registry_test_list_CFLAGS = $(GMV_TEST_CFLAGS)
tests_registry_test_list_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_registry_test_list_LDADD = libgmv-registry.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/registry/test_memory
TESTS += tests/registry/test_memory
tests_registry_test_memory_SOURCES = tests/registry/test_memory.c tests/registry/toy.h
tests_registry_test_memory_CFLAGS = $(GMV_TEST_CFLAGS)
tests_registry_test_memory_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_registry_test_memory_LDADD = libgmv-registry.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/registry/test_nodes
TESTS += tests/registry/test_nodes
tests_registry_test_nodes_SOURCES = tests/registry/test_nodes.c tests/registry/toy.h
tests_registry_test_nodes_CFLAGS = $(GMV_TEST_CFLAGS)
tests_registry_test_nodes_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_registry_test_nodes_LDADD = libgmv-registry.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/registry/race_registry
TESTS += tests/registry/race_registry
tests_registry_race_registry_SOURCES = tests/registry/race_registry.c tests/registry/race.h tests/registry/toy.h
tests_registry_race_registry_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_registry_race_registry_LDADD = libgmv-registry.la libgmv-base.la

check_PROGRAMS += tests/registry/test_lease
TESTS += tests/registry/test_lease
tests_registry_test_lease_SOURCES = tests/registry/test_lease.c tests/registry/toy.h
tests_registry_test_lease_CFLAGS = $(GMV_TEST_CFLAGS)
tests_registry_test_lease_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_registry_test_lease_LDADD = libgmv-registry.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/registry/test_session
TESTS += tests/registry/test_session
tests_registry_test_session_SOURCES = tests/registry/test_session.c tests/registry/toy.h
tests_registry_test_session_CFLAGS = $(GMV_TEST_CFLAGS)
tests_registry_test_session_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_registry_test_session_LDADD = libgmv-registry.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/registry/test_wheel
TESTS += tests/registry/test_wheel
tests_registry_test_wheel_SOURCES = tests/registry/test_wheel.c tests/registry/toy.h
tests_registry_test_wheel_CFLAGS = $(GMV_TEST_CFLAGS)
tests_registry_test_wheel_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_registry_test_wheel_LDADD = libgmv-registry.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/registry/race_lives
TESTS += tests/registry/race_lives
tests_registry_race_lives_SOURCES = tests/registry/race_lives.c tests/registry/race.h tests/registry/toy.h
tests_registry_race_lives_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_registry_race_lives_LDADD = libgmv-registry.la libgmv-base.la
